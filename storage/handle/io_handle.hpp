// Transfers files to and from a program's own memory, like DeepSpeed's aio handle, with a result for each operation.
// Owns its rings and their threads; leaves the memory and its lifetime to the caller. The handle does not depend on
// Torch: a tensor is passed as a pointer and a number of bytes (apps/examples/tensor_files.cpp).
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
#include "storage/queue/queue_engine.hpp"

namespace troupe::storage {

inline constexpr unsigned handle_threads_max = 64;
/// Largest number of operations of one handle that are in progress or whose outcome was not collected yet.
inline constexpr size_t handle_operations_max = 65536;

/// Options of an io_handle, which correspond to the keys of DeepSpeed's `aio` section.
struct io_handle_options {
  uint64_t block_bytes = uint64_t{1} << 20;  ///< `block_size`: size of one request, a multiple of 4096
  unsigned queue_depth = 128;                ///< largest number of requests in flight in each thread's ring
  bool single_submit = false;                ///< true: one system call for each request; false: one for several
  /// True: a new request starts when a request is finished; false: new requests start when all are finished.
  bool overlap_events = true;
  unsigned intra_op_parallelism = 1;  ///< number of threads that share an operation of several blocks
  queue_engine engine = queue_engine::best;
  std::vector<std::span<std::byte>> pools{};  ///< memory to register with the rings; must outlive the handle
  std::shared_ptr<pinned_memory> pinned{};    ///< manager of pinned buffers; null: the handle makes its own
};

using io_operation = uint64_t;  ///< identifies an operation within its handle

/// Result of an operation that has ended.
struct io_outcome {
  io_operation operation = 0;
  uint64_t bytes = 0;                ///< number of bytes transferred, also after an error
  std::optional<core::error> error;  ///< nullopt: everything was transferred
};

/// Reads and writes files. Any thread may call any function at any time, except the destructor.
///
/// Offsets, lengths and addresses are arbitrary. Transfers are direct if the file system supports it: the whole pages
/// of the file, in place if their memory begins at a multiple of 512 bytes, else copied; the partial pages at either
/// end go through the page cache. Writes create a missing file (0600), never shorten a file, and are durable after
/// `file::sync`. A read must get every byte: one that extends past the file's end fails. An offset that no file
/// can have is refused (`bad_input`), and no file is created for it.
class io_handle {
 public:
  /// Opens a handle. Errors: `bad_input` for options out of range; `limit` if the system refuses threads; those of
  /// `make_queue`.
  static core::result<std::unique_ptr<io_handle>> open(const io_handle_options& options);
  ~io_handle();  ///< cancels unfinished operations and waits for those in flight; no memory is accessed afterwards
  io_handle(const io_handle&) = delete;
  io_handle& operator=(const io_handle&) = delete;

  [[nodiscard]] uint64_t block_bytes() const;
  [[nodiscard]] unsigned queue_depth() const;
  [[nodiscard]] bool single_submit() const;
  [[nodiscard]] bool overlap_events() const;
  [[nodiscard]] unsigned intra_op_parallelism() const;
  /// Returns the alignment of offset, length and address at which transfers copy nothing.
  [[nodiscard]] uint64_t alignment_bytes() const;
  [[nodiscard]] std::string engine() const;  ///< returns `io_uring` or `threads`
  /// Returns one sentence for each requested feature that is not available: io_uring, direct I/O, locked memory.
  [[nodiscard]] std::vector<std::string> remarks() const;

  /// Reads or writes on the calling thread, through a ring that is opened for the call.
  core::result<void> read(std::span<std::byte> into, const std::filesystem::path& path, uint64_t offset = 0);
  core::result<void> write(std::span<const std::byte> from, const std::filesystem::path& path, uint64_t offset = 0);

  /// Reads or writes through the handle's threads, and blocks until this operation has ended.
  core::result<void> sync_pread(std::span<std::byte> into, const std::filesystem::path& path, uint64_t offset = 0);
  core::result<void> sync_pwrite(std::span<const std::byte> from, const std::filesystem::path& path,
                                 uint64_t offset = 0);

  /// Begins an operation and returns; the caller must not access the memory until the outcome was collected. Errors:
  /// those of opening the file, and `limit` for more than `handle_operations_max` operations.
  core::result<io_operation> async_pread(std::span<std::byte> into, const std::filesystem::path& path,
                                         uint64_t offset = 0);
  core::result<io_operation> async_pread(std::span<std::byte> into, const file& on, uint64_t offset = 0);
  core::result<io_operation> async_pwrite(std::span<const std::byte> from, const std::filesystem::path& path,
                                          uint64_t offset = 0);
  core::result<io_operation> async_pwrite(std::span<const std::byte> from, const file& on, uint64_t offset = 0);

  /// Waits for all asynchronous operations that began before the call. Returns the outcomes of all ended operations
  /// that were not collected yet, in the order of their ends.
  std::vector<io_outcome> wait();
  /// Waits for one operation; returns its number of bytes or its error. Error `bad_input` if the operation is unknown
  /// or its outcome was collected before.
  core::result<uint64_t> wait(io_operation one);
  /// Returns the outcomes of ended operations that were not collected yet, without waiting.
  std::vector<io_outcome> poll();
  [[nodiscard]] size_t pending() const;  ///< returns the number of operations in progress
  /// Returns an eventfd that is readable when `poll` would return outcomes.
  [[nodiscard]] int event_descriptor() const;

  core::result<std::span<std::byte>> new_pinned(uint64_t bytes);        ///< calls `pinned_memory::allocate`
  bool free_pinned(std::span<const std::byte> buffer);                  ///< calls `pinned_memory::free`
  [[nodiscard]] bool is_pinned(std::span<const std::byte> part) const;  ///< calls `pinned_memory::holds`

 private:
  struct state;
  explicit io_handle(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace troupe::storage
