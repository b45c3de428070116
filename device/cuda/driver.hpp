// Checks whether this process can use CUDA devices, and reads the properties of each. Owns the error sentences for
// missing parts. Internal.
#pragma once

#include <cstdint>

#include "core/error.hpp"
#include "device/properties.hpp"

namespace troupe::device::cuda {

/// Alignment in bytes of memory of every tier; cudaMalloc guarantees this alignment.
inline constexpr uint64_t memory_alignment_bytes = 256;

/// Lowest compute capability, as major * 10 + minor, that the library has kernels for. Kernels of bf16 need 80.
inline constexpr int least_capability = 80;

/// Returns how many devices CUDA_VISIBLE_DEVICES leaves. Errors: limit, if the driver is missing or too old, or if
/// there is no device.
core::result<uint32_t> visible_devices();

/// Returns an error if the library has no kernels for device `index`, which must be less than visible_devices(). Does
/// not change the calling thread's current device. Errors: limit, with the device's name.
core::result<void> check_device(uint32_t index);

/// Returns the properties of device `index`, which must be less than visible_devices().
const properties& facts_of(uint32_t index);

/// Makes `index` the device of the calling thread's CUDA calls.
void use_device(uint32_t index);

}  // namespace troupe::device::cuda
