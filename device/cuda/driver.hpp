// Whether this process can use CUDA devices, and the facts about each. Owns the sentences for what is missing.
// Internal.
#pragma once

#include <cstdint>

#include "core/error.hpp"
#include "device/properties.hpp"

namespace troupe::device::cuda {

/// Compute capability, major * 10 + minor, below which there are no kernels: those of bf16 begin there.
inline constexpr int least_capability = 80;

/// How many devices CUDA_VISIBLE_DEVICES leaves; each has kernels in this library. Errors: limit, where the driver is
/// missing or too old, where there is no device, or one that the library has no kernels for.
core::result<uint32_t> usable_devices();

/// Facts of a device that `usable_devices` counts.
const properties& facts_of(uint32_t index);

/// Makes `index` the device that the calling thread's calls of CUDA are for.
void use_device(uint32_t index);

}  // namespace troupe::device::cuda
