// Memory of a device and of the host beside it: one allocation with an owner. Owns the bytes; how they are laid out is
// the plan's, how the host gets them the backend's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/error.hpp"
#include "device/device_id.hpp"

namespace troupe::device {

/// Where memory lies. On the CPU all three are host memory on huge pages.
enum class tier : uint8_t {
  device,  ///< where the device computes
  huge,    ///< the host's, on huge pages: what is offloaded, and what files are read into
  pinned   ///< the host's, which stays where it is: copies to and from it run beside the host, and kernels reach it
};

class memory {  ///< any thread; one at a time
 public:
  memory() = default;
  memory(memory&&) noexcept = default;
  memory& operator=(memory&&) noexcept = default;

  /// `bytes` of zeros at a multiple of the device's alignment; none for 0. What cannot be pinned is given all the same
  /// and `remark` says why. Errors: limit, with the bytes wanted and those that the device has in all.
  static core::result<memory> allocate(device_id device, device::tier tier, uint64_t bytes);

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }  ///< rounded up to what the backend gives
  [[nodiscard]] device_id device() const { return device_; }
  [[nodiscard]] device::tier tier() const { return tier_; }
  /// Why it is not what its tier promises; nothing where it is.
  [[nodiscard]] const std::optional<std::string>& remark() const { return remark_; }

  /// Gives the bytes back to the system; they are zeros when they are next used. False where it keeps them.
  [[nodiscard]] bool discard() const;

 private:
  std::shared_ptr<void> owner_;  // the backend's
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  device_id device_;
  device::tier tier_ = device::tier::device;
  std::optional<std::string> remark_;
};

}  // namespace troupe::device
