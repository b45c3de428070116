// Order of a device's work: a stream is a queue of copies and kernels, an event a point in one. On the CPU work is done
// at once, so every queue is empty and every event over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/error.hpp"
#include "device/device_id.hpp"

namespace troupe::device {

/// A point in the work of a stream. One that was never recorded is over.
class event {
 public:
  /// Whether the work before it is done; does not wait.
  [[nodiscard]] bool is_over() const;
  /// The host waits until it is.
  void finish() const;
  /// How long after `earlier`, of the same device, the work before it was done; both are over. 0 where one was never
  /// recorded.
  [[nodiscard]] int64_t ns_since(const event& earlier) const;

 private:
  friend class stream;
  std::shared_ptr<void> native_;  // the backend's
  device_id device_;
};

/// Used by one thread at a time. Calls return at once and their work is done in order; between streams only events
/// define an order.
class stream {
 public:
  explicit stream(device_id device);
  /// The calling thread's stream, which its kernels (kernels/operations.hpp) and Torch's use, too: its own, but within
  /// a current_stream.
  static stream& current(device_id device);

  /// Between memory of the device and host memory, in any direction; `from` and `to` do not overlap and stay until the
  /// copy is done. Copies from and to pinned memory run beside the host.
  void copy(std::byte* to, const std::byte* from, uint64_t bytes);
  /// `at` becomes the point behind all work asked for so far.
  void record(event& at);
  /// Work asked for from now on begins when `at`, of any stream of the device, is over.
  void wait(const event& at);
  /// The host waits until all work asked for is done. Errors: work of the device, of this stream or another, has failed
  /// since somebody was told last; a device that is lost tells everybody.
  core::result<void> finish();

  [[nodiscard]] device_id device() const { return device_; }
  [[nodiscard]] void* native() const { return native_.get(); }  ///< the backend's; null on the CPU

 private:
  std::shared_ptr<void> native_;
  device_id device_;
};

/// While it lives, `stream::current` of the calling thread is `s`, whatever thread's that is: how work that one thread
/// has begun goes on in its order on a second one. `s` outlives it.
class current_stream {
 public:
  explicit current_stream(stream& s);
  ~current_stream();
  current_stream(const current_stream&) = delete;
  current_stream& operator=(const current_stream&) = delete;

 private:
  stream*& place_;  // the thread's
  stream* before_;
  void* torch_before_;  // the backend's
};

}  // namespace troupe::device
