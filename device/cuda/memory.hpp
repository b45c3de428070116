// Allocates memory of a CUDA device and memory of the host for its other tiers. Internal.
#pragma once

#include <cstdint>

#include "core/error.hpp"
#include "device/backend.hpp"

namespace troupe::device::cuda {

core::result<block> allocate(uint32_t index, tier where, uint64_t bytes);
bool discard(void* owner);

}  // namespace troupe::device::cuda
