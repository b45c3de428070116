// Two windows of pinned memory, of which the host fills one while a stream copies the other. Owns the windows and the
// order of their use.
#pragma once

#include <array>
#include <utility>

#include "core/error.hpp"
#include "device/memory.hpp"
#include "device/stream.hpp"

namespace troupe::actors {

class pinned_pair {
 public:
  explicit pinned_pair(device::device_id device) : device_(device) {}

  /// Makes both at least so large; what is being copied is waited for. Errors: no memory.
  core::result<void> reserve(uint64_t bytes) {
    for (window& w : windows_) {
      if (w.memory.bytes() >= bytes) continue;
      w.copied.finish();
      auto got = device::memory::allocate(device_, device::tier::pinned, bytes);
      if (!got) return core::fail(got.error());
      w.memory = std::move(*got);
    }
    return {};
  }

  /// The window whose copy was asked for longer ago, once that is done.
  std::byte* next() {
    filled_ = 1 - filled_;
    windows_[filled_].copied.finish();
    return windows_[filled_].memory.data();
  }

  /// Copies the first bytes of the latest window to `to`, memory of the device, behind the work of this thread's
  /// stream.
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
  std::array<window, 2> windows_;
  size_t filled_ = 0;
};

}  // namespace troupe::actors
