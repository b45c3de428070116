// Memory of a device and of the host beside it: one allocation with an owner. Owns the bytes; the plan lays them out,
// the backend allocates them.
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
  huge,    ///< the host's, on huge pages: for offloaded states and for reading files
  pinned   ///< the host's, page-locked: copies to and from it run beside the host, and kernels can reach it
};

class memory {  ///< any thread; one at a time
 public:
  memory() = default;
  memory(memory&&) noexcept = default;
  memory& operator=(memory&&) noexcept = default;

  /// `bytes` of zeros at a multiple of the device's alignment; no memory for 0. Memory that cannot be pinned is given
  /// all the same and `remark` says why. Errors: limit, with the bytes wanted and the device's total.
  static core::result<memory> allocate(device_id device, device::tier tier, uint64_t bytes);

  /// Bytes that somebody else has allocated, of a tier of the host: `owner` keeps them.
  static memory of(std::shared_ptr<void> owner, std::span<std::byte> bytes, device_id device, device::tier tier);

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }  ///< rounded up by the backend
  [[nodiscard]] device_id device() const { return device_; }
  [[nodiscard]] device::tier tier() const { return tier_; }
  /// Why it is not what its tier promises; nullopt if it is.
  [[nodiscard]] const std::optional<std::string>& remark() const { return remark_; }

  /// Gives the bytes back to the system; they are zeros at their next use. False if the backend or another owner keeps
  /// them.
  [[nodiscard]] bool discard() const;

 private:
  std::shared_ptr<void> owner_;  // the backend's
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  device_id device_;
  device::tier tier_ = device::tier::device;
  bool is_others_ = false;  // made by `of`
  std::optional<std::string> remark_;
};

}  // namespace troupe::device
