// Allocates memory of every tier for a CUDA device: memory of the device itself, and memory of the host. Internal.
#pragma once

#include <cstdint>

#include "core/error.hpp"
#include "device/backend.hpp"

namespace troupe::device::cuda {

core::result<block> allocate(uint32_t index, tier where, uint64_t bytes);
bool discard(void* owner);

}  // namespace troupe::device::cuda
