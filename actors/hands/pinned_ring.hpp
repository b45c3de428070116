// A ring of windows of pinned memory: the host fills one while a stream copies others. Owns the windows and the order
// of their use.
#pragma once

#include <utility>
#include <vector>

#include "core/error.hpp"
#include "device/memory.hpp"
#include "device/stream.hpp"

namespace troupe::actors {

class pinned_ring {
 public:
  pinned_ring(device::device_id device, size_t windows) : device_(device), windows_(windows) {}

  /// Adds windows until the ring has at least `windows` of them.
  void widen(size_t windows) {
    if (windows > windows_.size()) windows_.resize(windows);
  }

  /// Returns the least recently used window, with at least `bytes` bytes, once its copy is done. Errors: no memory.
  core::result<std::byte*> next(uint64_t bytes) {
    filled_ = (filled_ + 1) % windows_.size();
    window& w = windows_[filled_];
    w.copied.finish();
    if (w.memory.bytes() < bytes) {
      TROUPE_ASSIGN(auto got, device::memory::allocate(device_, device::tier::pinned, bytes));
      w.memory = std::move(got);
    }
    return w.memory.data();
  }

  /// Enqueues a copy of the first `bytes` bytes of the window that next() returned last to `to`, in device memory, on
  /// this thread's stream.
  void copy(std::byte* to, uint64_t bytes) {
    auto& stream = device::stream::current(device_);
    stream.copy(to, windows_[filled_].memory.data(), bytes);
    stream.record(windows_[filled_].copied);
  }

 private:
  struct window {
    device::memory memory;
    device::event copied;
  };

  device::device_id device_;
  std::vector<window> windows_;
  size_t filled_ = 0;
};

}  // namespace troupe::actors
