// Sessions request LibTorch's settings for CUDA devices, which exist once per process. This file owns the rule for
// several sessions; the library that provides the devices applies the settings.
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

/// The functions that the CUDA library of models/ registers, so that the program can use devices of kind cuda.
struct cuda_process {
  void (*settle)(const cuda_settings& s);
  /// Restores Torch's settings of before `settle`, and returns the memory that Torch keeps.
  void (*restore)();
  /// Limits Torch's operations to `bytes` of the device's memory, including the memory that Torch caches.
  core::result<void> (*limit_memory)(uint32_t index, uint64_t bytes);
  void (*empty_cache)();  ///< returns memory that Torch keeps for later allocations
};

/// Registers the library's functions. Called once, before the first session on such a device.
void provide(const cuda_process& of_library);

/// Returns memory of the device that Torch keeps for later allocations; does nothing without the library.
void empty_cuda_cache();

/// Returns `bytes` as a fraction of `all_bytes`, at most 1; 1 if `all_bytes` is unknown (0).
constexpr double part_of_memory(uint64_t bytes, uint64_t all_bytes) {
  return bytes >= all_bytes ? 1 : static_cast<double>(bytes) / static_cast<double>(all_bytes);
}

class cuda_use {  ///< applies a session's CUDA settings to the process while the session is open
 public:
  /// Requests settings, which hold from now on; called before the session computes. Errors: bad_input, if another open
  /// session of this process has other settings, or the environment contradicts them.
  static core::result<std::unique_ptr<cuda_use>> begin(device::device_id device, const cuda_settings& s);
  ~cuda_use();
  cuda_use(const cuda_use&) = delete;
  cuda_use& operator=(const cuda_use&) = delete;

  /// Permits Torch to use `bytes` of the device's memory for this session; the shares of several sessions are added.
  /// Errors: io.
  core::result<void> share_memory(uint64_t bytes);

 private:
  cuda_use(device::device_id device, const cuda_settings& s) : device_(device), settings_(s) {}

  device::device_id device_;
  cuda_settings settings_;
  uint64_t bytes_ = 0;
};

}  // namespace troupe::models
