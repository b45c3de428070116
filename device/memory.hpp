// Memory of a device, or of the host for a device: one allocation with an owner. Owns the bytes; leaves their layout to
// the plan and their allocation to the backend.
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

/// Kind of memory. On the CPU all three are host memory on huge pages.
enum class tier : uint8_t {
  device,  ///< memory of the device that computes
  huge,    ///< host memory on huge pages: for offloaded states and for reading files
  pinned   ///< page-locked host memory: copies to and from it overlap with the host's work, and kernels can access it
};

class memory {  ///< owns one allocation; usable from any thread, one thread at a time
 public:
  memory() = default;
  memory(memory&&) noexcept = default;
  memory& operator=(memory&&) noexcept = default;

  /// Allocates `bytes` of zeros, aligned for the device; allocates nothing for 0 bytes. If the CPU's backend cannot
  /// lock pinned memory, returns it unlocked, and `remark` returns the reason; CUDA's backend returns an error. Errors:
  /// limit, with the bytes requested and the device's total; io if the GPU fails.
  static core::result<memory> allocate(device_id device, device::tier tier, uint64_t bytes);

  /// Returns a view of bytes of a host tier that were allocated elsewhere; `owner` keeps them alive.
  static memory of(std::shared_ptr<void> owner, std::span<std::byte> bytes, device_id device, device::tier tier);

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }  ///< size of the memory in bytes, rounded up by the backend
  /// Returns the owner of the bytes: they exist as long as this object or any copy of the pointer does. Null for 0
  /// bytes.
  [[nodiscard]] const std::shared_ptr<void>& owner() const { return owner_; }
  [[nodiscard]] device_id device() const { return device_; }
  [[nodiscard]] device::tier tier() const { return tier_; }
  /// Returns why the memory lacks a property of its tier, such as pinning; nullopt if it has all of them.
  [[nodiscard]] const std::optional<std::string>& remark() const { return remark_; }

  /// Returns the pages to the operating system; the bytes are zeros at their next use. Returns false, and changes
  /// nothing, if the backend cannot do that, as for memory of a GPU, or if `of` made this object.
  [[nodiscard]] bool discard() const;

 private:
  // allocation of the backend, or the owner given to `of`; freed when its last owner ends
  std::shared_ptr<void> owner_;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  device_id device_;
  device::tier tier_ = device::tier::device;
  bool is_others_ = false;  // true if `of` made this object, so that discard() must not change the memory
  std::optional<std::string> remark_;
};

}  // namespace troupe::device
