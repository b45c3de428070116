// Files to and from memory for programs that bring their own: what DeepSpeed's aio handle does, with a result for each
// operation. Owns its rings and their threads; the memory and its life are the caller's. No tensors here: one is a
// pointer and a number of bytes (apps/examples/tensor_files.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "storage/memory/pinned_memory.hpp"
#include "storage/queue/file.hpp"
#include "storage/queue/io_queue.hpp"

namespace troupe::storage {

inline constexpr unsigned handle_threads_max = 64;
inline constexpr size_t handle_operations_max = 65536;  ///< begun and not collected, of one handle

/// The names of the `aio` section.
struct io_handle_options {
  uint64_t block_bytes = uint64_t{1} << 20;  ///< `block_size`: of one request, a multiple of 4096
  unsigned queue_depth = 128;                ///< requests in flight in each thread's ring
  bool single_submit = false;                ///< one system call for each request instead of one for several
  bool overlap_events = true;                ///< replaces requests that are over at once; else when all are over
  unsigned intra_op_parallelism = 1;         ///< threads; an operation of several blocks is shared among them
  queue_engine engine = queue_engine::best;
  std::vector<std::span<std::byte>> pools{};  ///< memory to register with the rings; outlives the handle
  std::shared_ptr<pinned_memory> pinned{};    ///< shared with other handles; by default the handle's own
};

using io_operation = uint64_t;  ///< names one that was begun, within its handle

/// How an operation ended.
struct io_outcome {
  io_operation operation = 0;
  uint64_t bytes = 0;                ///< transferred, in any case
  std::optional<core::error> error;  ///< none: all of it was
};

/// Any thread may call anything at any time but the destructor.
///
/// Offsets, lengths and addresses are free. Transfers are direct where the file system does that: the whole pages of
/// the file, in place where their memory begins at a multiple of 512 bytes, copied on the way where it does not; the
/// rest of a page at either end goes through the page cache. Writes make a missing file (0600), never shorten one and
/// are durable after `file::sync`. A read wants every byte: one beyond the file's end fails.
class io_handle {
 public:
  /// Errors  `bad_input` for options out of range; `limit` where there are no threads; those of `make_queue`.
  static core::result<std::unique_ptr<io_handle>> open(const io_handle_options& options);
  ~io_handle();  ///< gives up what is not over and waits for what is under way; no memory is touched afterwards
  io_handle(const io_handle&) = delete;
  io_handle& operator=(const io_handle&) = delete;

  [[nodiscard]] uint64_t block_bytes() const;
  [[nodiscard]] unsigned queue_depth() const;
  [[nodiscard]] bool single_submit() const;
  [[nodiscard]] bool overlap_events() const;
  [[nodiscard]] unsigned intra_op_parallelism() const;
  [[nodiscard]] uint64_t alignment_bytes() const;  ///< of offset, length and address: nothing is copied then
  [[nodiscard]] std::string engine() const;        ///< `io_uring`, `threads`
  /// Wanted features that could not be had, a sentence each: io_uring, direct I/O, locked memory.
  [[nodiscard]] std::vector<std::string> remarks() const;

  /// On the calling thread, through a ring made for it.
  core::result<void> read(std::span<std::byte> into, const std::filesystem::path& path, uint64_t offset = 0);
  core::result<void> write(std::span<const std::byte> from, const std::filesystem::path& path, uint64_t offset = 0);

  /// Through the handle's threads; returns when this operation is over, whatever else is under way.
  core::result<void> sync_pread(std::span<std::byte> into, const std::filesystem::path& path, uint64_t offset = 0);
  core::result<void> sync_pwrite(std::span<const std::byte> from, const std::filesystem::path& path,
                                 uint64_t offset = 0);

  /// Begins and returns; the memory is the handle's until the outcome. Errors: those of opening the file, and `limit`
  /// for more than `handle_operations_max`. A file that is given open is not opened again.
  core::result<io_operation> async_pread(std::span<std::byte> into, const std::filesystem::path& path,
                                         uint64_t offset = 0);
  core::result<io_operation> async_pread(std::span<std::byte> into, const file& on, uint64_t offset = 0);
  core::result<io_operation> async_pwrite(std::span<const std::byte> from, const std::filesystem::path& path,
                                          uint64_t offset = 0);
  core::result<io_operation> async_pwrite(std::span<const std::byte> from, const file& on, uint64_t offset = 0);

  /// Waits for all that was begun before the call; gives the outcomes that were not collected yet, as many as finished,
  /// in the order of their ends. Empty where there is none.
  std::vector<io_outcome> wait();
  /// Waits for one: its bytes or its error. `bad_input` where it is unknown or was collected.
  core::result<uint64_t> wait(io_operation one);
  /// As `wait()`, without waiting: what has ended.
  std::vector<io_outcome> poll();
  [[nodiscard]] size_t pending() const;  ///< begun and not over
  /// An eventfd, readable when `poll` will find something.
  [[nodiscard]] int event_descriptor() const;

  core::result<std::span<std::byte>> new_pinned(uint64_t bytes);        ///< `pinned_memory::allocate`
  bool free_pinned(std::span<const std::byte> buffer);                  ///< `pinned_memory::free`
  [[nodiscard]] bool is_pinned(std::span<const std::byte> part) const;  ///< `pinned_memory::holds`

 private:
  struct state;
  explicit io_handle(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace troupe::storage
