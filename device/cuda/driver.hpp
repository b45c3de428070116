// Checks whether this process can use CUDA devices, and reads the properties of each. Owns the error sentences for
// missing parts. Internal.
#pragma once

#include <cstdint>

#include "core/error.hpp"
#include "device/properties.hpp"

namespace troupe::device::cuda {

/// Lowest compute capability, major * 10 + minor, that the library has kernels for: kernels of bf16 need 80.
inline constexpr int least_capability = 80;

/// Returns how many devices CUDA_VISIBLE_DEVICES leaves; this library has kernels for each of them. Errors: limit, if
/// the driver is missing or too old, if there is no device, or if the library has no kernels for one of them.
core::result<uint32_t> usable_devices();

/// Returns the properties of a device that `usable_devices` counts.
const properties& facts_of(uint32_t index);

/// Makes `index` the device of the calling thread's CUDA calls.
void use_device(uint32_t index);

}  // namespace troupe::device::cuda
