// Runs many reads and writes at once, with a bounded number in flight. Owns the interface of all queues, the credits
// (free places for requests), the continuation of short transfers and the choice between io_uring and threads. The
// engines are in `uring_queue.cpp` and `thread_queue.cpp`, a simulated disk for tests is in `tests/fakes`. A queue is
// used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "storage/queue/queue_engine.hpp"
#include "storage/queue/transfer.hpp"

namespace troupe::storage {

inline constexpr unsigned queue_depth_max = 4096;                      ///< maximum requests in flight in one queue
inline constexpr unsigned queue_threads_max = 64;                      ///< maximum threads of one `thread_queue`
inline constexpr unsigned registered_files_max = 64;                   ///< maximum files registered with one ring
inline constexpr uint64_t registered_piece_bytes = uint64_t{1} << 30;  ///< the kernel's limit on one registered buffer

struct io_queue_options {  ///< options of a queue, fixed for its life
  queue_engine engine = queue_engine::best;
  unsigned depth = 32;   ///< largest number of requests in flight, 1 to `queue_depth_max`
  unsigned threads = 4;  ///< number of threads of a `thread_queue`, 1 to `queue_threads_max`
  /// Memory that contains the buffers of most requests. The queue registers it with the kernel once, so that the kernel
  /// need not pin it for each request. Must outlive the queue.
  std::vector<std::span<std::byte>> pools;
  /// Function for tests of short transfers: receives a request and the system's answer (bytes or -errno), and returns
  /// the answer that the queue uses instead.
  std::function<int64_t(const io_request&, int64_t)> disturb;
};

/// A queue of read and write requests, at most `depth` of them in flight.
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

  /// Waits until all requests in flight are complete, and appends all completions to `out`.
  void drain(std::vector<io_completion>& out);

  /// Requests the end of every request in flight. Each one still completes: with `stopped` and the bytes that were
  /// transferred, or normally if the request came too late. A device is not interrupted in the middle of a transfer.
  void cancel_all();

  /// Allows later transfers of `on` to use a descriptor registered with the kernel, which stays open until `forget` or
  /// the queue's end. False if the queue does not register files or has no slot left; nothing else changes then.
  virtual bool keep(const file& on);
  virtual void forget(const file& on);  ///< undoes `keep`; requires that no request of the file is in flight

  [[nodiscard]] unsigned depth() const { return static_cast<unsigned>(transfers_.size()); }
  [[nodiscard]] unsigned in_flight() const { return depth() - static_cast<unsigned>(free_.size()); }
  /// Returns an eventfd that is readable when `poll` may return completions; `poll` resets it. Returns -1 if the
  /// process had no descriptor left.
  [[nodiscard]] int event_descriptor() const { return event_; }
  [[nodiscard]] virtual std::string name() const = 0;  ///< returns `io_uring`, `threads` or `modelled`
  /// Returns one sentence for each requested feature that is not available, for the log and for `troupe doctor`.
  [[nodiscard]] const std::vector<std::string>& remarks() const { return remarks_; }

 protected:
  /// The system's answer to the request in a slot: the number of bytes, or a negative errno.
  struct answer {
    uint32_t slot;
    int64_t value;
  };

  explicit io_queue(const io_queue_options& options);
  /// Cancels all requests in flight and waits for them. Must be the first statement of every derived destructor,
  /// because it calls virtual functions.
  void finish();
  [[nodiscard]] const transfer& at(uint32_t slot) const { return transfers_[slot]; }
  void remark(std::string sentence) { remarks_.push_back(std::move(sentence)); }
  void signal_event() const;  ///< makes the eventfd readable; may be called by any thread

  virtual void begin(uint32_t slot) = 0;                            ///< prepares a call for transfers_[slot].rest()
  virtual void flush() = 0;                                         ///< submits all requests that `begin` has prepared
  virtual void reap(bool block, std::vector<answer>& answers) = 0;  ///< appends new answers; waits for one if `block`
  virtual void stop_all() = 0;  ///< cancels requests; a cancelled request has the answer -ECANCELED

 private:
  size_t take(bool block, std::vector<io_completion>& out);

  std::vector<transfer> transfers_;  // [slot]: a request in flight, or unused; one slot per credit
  std::vector<uint32_t> free_;
  std::vector<answer> answers_;
  std::function<int64_t(const io_request&, int64_t)> disturb_;
  std::vector<std::string> remarks_;
  int event_ = -1;
};

/// Returns `bad_input` if the depth or the number of threads is outside its limits.
core::result<void> check(const io_queue_options& options);

/// Function that makes an io_uring queue. Tests pass one to `make_queue` to simulate a kernel that refuses io_uring.
using uring_factory = std::function<core::result<std::unique_ptr<io_queue>>(const io_queue_options&)>;

/// Makes the queue that `options.engine` names. `best` uses threads if the kernel refuses io_uring (too old, a
/// container's seccomp filter, `kernel.io_uring_disabled`, no memory) and adds the reason to `remarks()`.
core::result<std::unique_ptr<io_queue>> make_queue(const io_queue_options& options);
core::result<std::unique_ptr<io_queue>> make_queue(const io_queue_options& options, const uring_factory& uring);

}  // namespace troupe::storage
