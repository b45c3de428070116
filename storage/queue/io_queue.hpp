// Runs many reads and writes at once, with a bounded number in flight. Owns the interface that all queues share, its
// credits, the continuation of short transfers and the choice between io_uring and threads. The engines are in
// `uring_queue.hpp` and `thread_queue.hpp`, a disk for tests in `tests/fakes`. A queue is used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "storage/queue/transfer.hpp"

namespace troupe::storage {

inline constexpr unsigned queue_depth_max = 4096;                      ///< requests in flight in one queue
inline constexpr unsigned queue_threads_max = 64;                      ///< threads of one `thread_queue`
inline constexpr unsigned registered_files_max = 64;                   ///< files that one ring keeps registered
inline constexpr uint64_t registered_piece_bytes = uint64_t{1} << 30;  ///< the kernel's limit on one registered buffer

/// Implementation that moves the bytes.
enum class queue_engine : uint8_t {
  best,     ///< io_uring, or threads if the kernel refuses it
  uring,    ///< io_uring or an error
  threads,  ///< a pool of threads that call pread and pwrite
};

struct io_queue_options {  ///< fixed for the life of a queue
  queue_engine engine = queue_engine::best;
  unsigned depth = 32;   ///< requests in flight, 1 to `queue_depth_max`
  unsigned threads = 4;  ///< threads of a `thread_queue`, 1 to `queue_threads_max`
  /// Memory that contains most requests' buffers; registered with the kernel once instead of pinned for each request.
  /// Must outlive the queue.
  std::vector<std::span<std::byte>> pools;
  /// For tests of continuation: receives a request and the system's answer (bytes or -errno) and returns the answer
  /// that the queue uses instead.
  std::function<int64_t(const io_request&, int64_t)> disturb;
};

/// A queue of requests, at most `depth` of them in flight.
class io_queue {
 public:
  io_queue(const io_queue&) = delete;
  io_queue& operator=(const io_queue&) = delete;
  /// Cancels requests in flight and waits for them: no memory is accessed afterwards.
  virtual ~io_queue();

  /// Begins all of `requests` at once, or none. Errors: `limit` if fewer credits are left (the caller can compute them:
  /// `depth() - in_flight()`), `bad_input` for a request that `transfer::check` refuses.
  core::result<void> submit(std::span<const io_request> requests);
  /// Begins one request.
  core::result<void> submit(const io_request& request) { return submit(std::span(&request, 1)); }

  /// Appends completed requests to `out`, in any order, without blocking; returns their number. Also continues short
  /// transfers, so it must be called whenever `event_descriptor` is readable.
  size_t poll(std::vector<io_completion>& out);

  /// Appends completed requests to `out` like `poll`, but blocks until at least one is complete. Returns 0 at once if
  /// none is in flight.
  size_t wait(std::vector<io_completion>& out);

  /// Waits until all requests in flight are complete.
  void drain(std::vector<io_completion>& out);

  /// Requests the end of every request in flight. Each one still completes: with `stopped` and the bytes that were
  /// transferred, or normally if the request came too late. A device is not interrupted in the middle of a transfer.
  void cancel_all();

  /// Allows later transfers of `on` to use a descriptor registered with the kernel, which stays open until `forget` or
  /// the queue's end. False if the queue does not register files or has no slot left; nothing else changes then.
  virtual bool keep(const file& on);
  virtual void forget(const file& on);  ///< undoes `keep`; none of the file's requests may be in flight

  [[nodiscard]] unsigned depth() const { return static_cast<unsigned>(transfers_.size()); }
  [[nodiscard]] unsigned in_flight() const { return depth() - static_cast<unsigned>(free_.size()); }
  /// An eventfd that is readable when `poll` may find something; `poll` makes it unreadable. -1 if the process has no
  /// descriptor left.
  [[nodiscard]] int event_descriptor() const { return event_; }
  [[nodiscard]] virtual std::string name() const = 0;  ///< `io_uring`, `threads` or `modelled`
  /// One sentence for each requested feature that is not available, for the log and for `doctor`.
  [[nodiscard]] const std::vector<std::string>& remarks() const { return remarks_; }

 protected:
  /// The system's answer to the request in a slot: bytes or a negative errno.
  struct answer {
    uint32_t slot;
    int64_t value;
  };

  explicit io_queue(const io_queue_options& options);
  /// Cancels and waits for everything in flight. Must be the first statement of every derived destructor, while the
  /// virtual functions still exist.
  void finish();
  [[nodiscard]] const transfer& at(uint32_t slot) const { return transfers_[slot]; }
  void remark(std::string sentence) { remarks_.push_back(std::move(sentence)); }
  void signal_event() const;  ///< may be called by any thread

  virtual void begin(uint32_t slot) = 0;                            ///< transfers the slot's `rest()`
  virtual void flush() = 0;                                         ///< hands begun requests to the system
  virtual void reap(bool block, std::vector<answer>& answers) = 0;  ///< waits for at least one answer if `block`
  virtual void stop_all() = 0;  ///< requests that can still be cancelled answer -ECANCELED

 private:
  size_t take(bool block, std::vector<io_completion>& out);

  std::vector<transfer> transfers_;  // one per credit
  std::vector<uint32_t> free_;
  std::vector<answer> answers_;
  std::function<int64_t(const io_request&, int64_t)> disturb_;
  std::vector<std::string> remarks_;
  int event_ = -1;
};

/// Fails if a depth or a number of threads is outside its limits.
core::result<void> check(const io_queue_options& options);

/// Makes an io_uring queue; a parameter of `make_queue`, so that tests can simulate a kernel that refuses.
using uring_factory = std::function<core::result<std::unique_ptr<io_queue>>(const io_queue_options&)>;

/// Makes the queue that `options.engine` names. `best` uses threads if the kernel refuses io_uring (too old, a
/// container's seccomp filter, `kernel.io_uring_disabled`, no memory) and adds the reason to `remarks()`.
core::result<std::unique_ptr<io_queue>> make_queue(const io_queue_options& options);
core::result<std::unique_ptr<io_queue>> make_queue(const io_queue_options& options, const uring_factory& uring);

}  // namespace troupe::storage
