// Many reads and writes at once, with a bounded number in flight. Owns the interface that all queues share, its
// credits, the continuation of short transfers and the choice between io_uring and threads. The ways to move bytes are
// in `uring_queue.hpp` and `thread_queue.hpp`, a disk for tests in `tests/fakes`. A queue belongs to one thread at a
// time.
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
inline constexpr unsigned registered_files_max = 64;                   ///< files that one ring holds on to
inline constexpr uint64_t registered_piece_bytes = uint64_t{1} << 30;  ///< the kernel's limit on one registered buffer

/// The means of moving bytes.
enum class queue_engine : uint8_t {
  best,     ///< io_uring, threads where the kernel refuses it
  uring,    ///< io_uring or an error
  threads,  ///< a pool of threads that call pread and pwrite
};

struct io_queue_options {  ///< of a queue, fixed for its life
  queue_engine engine = queue_engine::best;
  unsigned depth = 32;   ///< requests in flight, 1 to `queue_depth_max`
  unsigned threads = 4;  ///< of a `thread_queue`, 1 to `queue_threads_max`
  /// Memory that most requests lie in, registered with the kernel once instead of pinned for each request. It outlives
  /// the queue.
  std::vector<std::span<std::byte>> pools;
  /// For tests of continuation: sees a request and the system's answer (bytes or -errno) and says what to believe.
  std::function<int64_t(const io_request&, int64_t)> disturb;
};

/// Requests begun and over, at most `depth` at a time.
class io_queue {
 public:
  io_queue(const io_queue&) = delete;
  io_queue& operator=(const io_queue&) = delete;
  /// Cancels and waits for what is in flight: no memory is touched afterwards.
  virtual ~io_queue();

  /// Begins all of `requests` in one go, or none. Errors: `limit` when fewer than that many credits are left (the
  /// caller keeps them: `depth() - in_flight()`), `bad_input` for a request that `transfer::check` refuses.
  core::result<void> submit(std::span<const io_request> requests);
  core::result<void> submit(const io_request& request) { return submit(std::span(&request, 1)); }  ///< one

  /// Appends what is over to `out`, in any order, without blocking; gives how many. Also drives continuations, so it is
  /// to be called whenever `event_descriptor` is readable.
  size_t poll(std::vector<io_completion>& out);

  /// As `poll`, but blocks until at least one request is over. At once 0 when none is in flight.
  size_t wait(std::vector<io_completion>& out);

  /// Waits for all that is in flight.
  void drain(std::vector<io_completion>& out);

  /// Asks every request in flight to end. Each still completes: as `stopped` with the bytes that were transferred, or
  /// as it would have, when it was too late. A device is not interrupted in the middle of a transfer.
  void cancel_all();

  /// From now on transfers of `on` may use a descriptor registered with the kernel, which stays open until `forget` or
  /// the queue's end. False where there is no such thing or no slot left; nothing else changes then.
  virtual bool keep(const file& on);
  virtual void forget(const file& on);  ///< undoes `keep`, once none of its requests is in flight

  [[nodiscard]] unsigned depth() const { return static_cast<unsigned>(transfers_.size()); }
  [[nodiscard]] unsigned in_flight() const { return depth() - static_cast<unsigned>(free_.size()); }
  /// An eventfd, readable when `poll` may find something; `poll` makes it unreadable. -1 when the process has no
  /// descriptor left.
  [[nodiscard]] int event_descriptor() const { return event_; }
  [[nodiscard]] virtual std::string name() const = 0;  ///< `io_uring`, `threads`, `modelled`
  /// Wanted features that could not be had, a sentence each; for the log and for `doctor`.
  [[nodiscard]] const std::vector<std::string>& remarks() const { return remarks_; }

 protected:
  /// The system's answer to the request in a slot: bytes or a negative errno.
  struct answer {
    uint32_t slot;
    int64_t value;
  };

  explicit io_queue(const io_queue_options& options);
  /// To be the first statement of every destructor below: the virtual functions still exist then.
  void finish();
  [[nodiscard]] const transfer& at(uint32_t slot) const { return transfers_[slot]; }
  void remark(std::string sentence) { remarks_.push_back(std::move(sentence)); }
  void signal_event() const;  ///< from any thread

  virtual void begin(uint32_t slot) = 0;                            ///< the slot's `rest()` is to be transferred
  virtual void flush() = 0;                                         ///< begun requests go to the system
  virtual void reap(bool block, std::vector<answer>& answers) = 0;  ///< at least one when `block`
  virtual void stop_all() = 0;  ///< requests that can still be given up answer -ECANCELED

 private:
  size_t take(bool block, std::vector<io_completion>& out);

  std::vector<transfer> transfers_;  // one per credit
  std::vector<uint32_t> free_;
  std::vector<answer> answers_;
  std::function<int64_t(const io_request&, int64_t)> disturb_;
  std::vector<std::string> remarks_;
  int event_ = -1;
};

/// Refuses depths and numbers of threads outside their limits.
core::result<void> check(const io_queue_options& options);

/// Makes an io_uring queue; a parameter of `make_queue` so that a refusing kernel can be played.
using uring_factory = std::function<core::result<std::unique_ptr<io_queue>>(const io_queue_options&)>;

/// The queue that `options.engine` names. `best` takes threads where the kernel refuses io_uring (too old, a
/// container's seccomp filter, `kernel.io_uring_disabled`, no memory) and says why in `remarks()`.
core::result<std::unique_ptr<io_queue>> make_queue(const io_queue_options& options);
core::result<std::unique_ptr<io_queue>> make_queue(const io_queue_options& options, const uring_factory& uring);

}  // namespace troupe::storage
