// Use of LibTorch's CUDA settings, which exist once per process, by several training sessions. Owns the rule that
// sessions which are open together must agree; the CUDA library applies the settings.
#pragma once

#include <cstdint>
#include <memory>

#include "core/error.hpp"
#include "device/device_id.hpp"

namespace troupe::models {

struct cuda_settings {  ///< how LibTorch computes on CUDA devices during a session
  bool tf32 = false;
  bool deterministic = false;
  bool operator==(const cuda_settings&) const = default;
};

/// Functions that are told of each block of device memory that Torch allocates, for the stream on which it is used, and
/// of each block that Torch frees. Torch holds a lock during the call, so neither may call Torch.
struct memory_watch {
  void (*took)(const void* at, uint64_t bytes, const void* stream);
  void (*gave)(const void* at);
};

/// Functions of libtroupe_cuda.so, which the library registers, so that the program itself needs no CUDA symbol.
struct cuda_process {
  void (*settle)(const cuda_settings& s);
  /// Restores the settings that Torch had before `settle`, and frees the device memory that its allocator caches.
  void (*restore)();
  /// Limits Torch's operations to `bytes` of the device's memory, including the memory that Torch caches.
  core::result<void> (*limit_memory)(uint32_t index, uint64_t bytes);
  void (*empty_cache)();  ///< frees the device memory that Torch's allocator caches
  /// Calls `w` whenever Torch's allocator allocates or frees a block, until the process ends. Called once.
  core::result<void> (*watch_memory)(const memory_watch& w);
};

/// Registers the functions of the CUDA library. Must be called once, before the first session on a CUDA device.
void provide(const cuda_process& of_library);

/// Frees the device memory that Torch's allocator caches; does nothing if no CUDA library is registered.
void empty_cuda_cache();

/// Tells `w` of the device memory that Torch allocates and frees from now on, as long as the process lives; only the
/// first call has an effect, and none if no CUDA library is registered. Errors: io.
core::result<void> watch_cuda_memory(const memory_watch& w);

/// Returns `bytes` as a fraction of `all_bytes`, at most 1; 1 if `all_bytes` is unknown (0).
constexpr double part_of_memory(uint64_t bytes, uint64_t all_bytes) {
  return bytes >= all_bytes ? 1 : static_cast<double>(bytes) / static_cast<double>(all_bytes);
}

class cuda_use {  ///< applies a session's CUDA settings to the process while the session is open
 public:
  /// Applies the settings `s`, which hold until all sessions have ended; must be called before the session computes.
  /// Errors: bad_input, if another open session of this process has other settings, or the environment contradicts
  /// them.
  static core::result<std::unique_ptr<cuda_use>> begin(device::device_id device, const cuda_settings& s);
  ~cuda_use();
  cuda_use(const cuda_use&) = delete;
  cuda_use& operator=(const cuda_use&) = delete;

  /// Permits Torch to use `bytes` bytes of the device's memory for this session; Torch's limit is the sum over all open
  /// sessions. Errors: io.
  core::result<void> share_memory(uint64_t bytes);

 private:
  cuda_use(device::device_id device, const cuda_settings& s) : device_(device), settings_(s) {}

  device::device_id device_;
  cuda_settings settings_;
  uint64_t bytes_ = 0;
};

}  // namespace troupe::models
