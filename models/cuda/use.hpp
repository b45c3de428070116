// Sessions ask LibTorch for settings on CUDA devices, of which a process has one of each kind. This file owns the rule
// for several sessions; the library that provides the devices carries them out.
#pragma once

#include <cstdint>
#include <memory>

#include "core/error.hpp"
#include "device/device_id.hpp"

namespace troupe::models {

struct cuda_settings {  ///< how Torch's operations compute
  bool tf32 = false;
  bool deterministic = false;
  bool operator==(const cuda_settings&) const = default;
};

/// The functions of the library that provides devices of kind cuda.
struct cuda_process {
  void (*settle)(const cuda_settings& s);
  /// Torch's operations take no more than `bytes` of the device's memory, what Torch keeps for later included.
  core::result<void> (*limit_memory)(uint32_t index, uint64_t bytes);
};

/// Called once, before the first session on such a device.
void provide(const cuda_process& of_library);

/// The part of `all_bytes` that `bytes` are, at most 1; 1 where nobody knows how many there are.
constexpr double part_of_memory(uint64_t bytes, uint64_t all_bytes) {
  return bytes >= all_bytes ? 1 : static_cast<double>(bytes) / static_cast<double>(all_bytes);
}

class cuda_use {  ///< of one session, while it is open
 public:
  /// The settings hold from now on; called before the session computes. Errors: bad_input, where another session of
  /// this process has others, or the environment contradicts them.
  static core::result<std::unique_ptr<cuda_use>> begin(device::device_id device, const cuda_settings& s);
  ~cuda_use();
  cuda_use(const cuda_use&) = delete;
  cuda_use& operator=(const cuda_use&) = delete;

  /// So much of the device's memory is Torch's for this session; several sessions' shares are added. Errors: io.
  core::result<void> share_memory(uint64_t bytes);

 private:
  cuda_use(device::device_id device, const cuda_settings& s) : device_(device), settings_(s) {}

  device::device_id device_;
  cuda_settings settings_;
  uint64_t bytes_ = 0;
};

}  // namespace troupe::models
