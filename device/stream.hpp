// Order of a device's work: a stream is a queue of copies and kernels, an event is a point in that queue. Work on the
// CPU is done within the call, so the CPU's streams are always empty and its events always over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/error.hpp"
#include "device/device_id.hpp"

namespace troupe::device {

/// A point in the work of a stream. An event that was never recorded is over.
class event {
 public:
  /// True if all work that was queued before the event was recorded is done; does not wait.
  [[nodiscard]] bool is_over() const;
  /// Blocks the calling thread until all work that was queued before the event was recorded is done.
  void finish() const;
  /// Returns how many nanoseconds after `earlier`, an event of the same device, this event was reached; both must be
  /// over. Returns 0 if one of them was never recorded.
  [[nodiscard]] int64_t ns_since(const event& earlier) const;

 private:
  friend class stream;
  std::shared_ptr<void> native_;  // handle of the backend's event; null: the event was never recorded
  device_id device_;
};

/// A queue of a device's work, used by one thread at a time. Calls return at once and their work is done in order; only
/// events order the work of different streams.
class stream {
 public:
  explicit stream(device_id device);
  /// Returns the calling thread's stream, on which the thread's kernels (kernels/operations.hpp) and Torch's operations
  /// are queued: the thread's own stream, or the stream of the innermost current_stream object that lives.
  static stream& current(device_id device);

  /// Copies between memory of the device and host memory, in any direction; `from` and `to` must not overlap and must
  /// stay valid until the copy is done. Copies from and to pinned memory overlap with the host's work.
  void copy(std::byte* to, const std::byte* from, uint64_t bytes);
  /// Records event `at` after all work that is queued on the stream so far.
  void record(event& at);
  /// Makes work queued from now on wait until `at`, an event of any stream of the device, is over.
  void wait(const event& at);
  /// Blocks the host until all queued work is done. Errors: work of the device, on this stream or another, has failed
  /// and the failure was not reported yet; the loss of a device is reported by every call.
  core::result<void> finish();

  [[nodiscard]] device_id device() const { return device_; }
  [[nodiscard]] void* native() const { return native_.get(); }  ///< the backend's handle; null on the CPU

 private:
  std::shared_ptr<void> native_;
  device_id device_;
};

/// Makes `s` the calling thread's `stream::current` while this object lives, even if `s` was made by another thread, so
/// that a second thread can continue work in stream order. `s` must outlive this object.
class current_stream {
 public:
  explicit current_stream(stream& s);
  ~current_stream();
  current_stream(const current_stream&) = delete;
  current_stream& operator=(const current_stream&) = delete;

 private:
  stream*& place_;  // reference to the thread's pointer to its current stream
  stream* before_;
  void* torch_before_;  // handle of the stream that Torch used on this thread before
};

}  // namespace troupe::device
