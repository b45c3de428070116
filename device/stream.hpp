// Order of a device's work: a stream is a queue of copies and kernels, an event a point in one. On the CPU work is done
// when it is asked for, so every queue is empty and every event over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/device_id.hpp"

namespace troupe::device {

/// A point in the work of a stream. One that was never recorded is over.
class event {
 public:
  /// Whether the work before it is done; does not wait.
  [[nodiscard]] bool is_over() const;

 private:
  friend class stream;
  std::shared_ptr<void> native_;  // the backend's; null on the CPU
  device_id device_;
};

/// Used by one thread at a time. What is asked of it returns at once and is done in order; different streams keep no
/// order but that of events.
class stream {
 public:
  explicit stream(device_id device);
  /// The calling thread's own, in which its kernels (kernels/operations.hpp) and Torch's stand, too.
  static stream& current(device_id device);

  /// Between memory of the device and host memory, in any direction; `from` and `to` do not overlap and stay until the
  /// copy is done. From and to pinned memory the host goes on meanwhile.
  void copy(std::byte* to, const std::byte* from, uint64_t bytes);
  /// `at` becomes the point behind all that was asked for so far.
  void record(event& at);
  /// What is asked for from now on begins when `at`, of any stream of the device, is over.
  void wait(const event& at);
  /// The host waits until all that was asked for is done.
  void finish();

  [[nodiscard]] device_id device() const { return device_; }

 private:
  std::shared_ptr<void> native_;  // the backend's; null on the CPU
  device_id device_;
};

}  // namespace troupe::device
