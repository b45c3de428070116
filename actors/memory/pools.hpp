// Computes the size of each memory pool of a rank, and its kind of memory (device, pinned or huge pages). The plan owns
// the offsets within a pool.
#pragma once

#include <cstdint>

#include "device/memory.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::actors {

/// Returns the bytes of pool `which` for a rank that trains by the plan `trains`; `sizes` has the sizes of those pools
/// that depend on the rank's other plans, too.
uint64_t pool_bytes(const plan::rank_plan& trains, const plan::pool_sizes& sizes, plan::pool which);

/// Returns the tier (device, pinned or huge-page memory) of pool `which`; `windows` is the tier of pools through which
/// data move from and to files. If optimizer states are offloaded, the host updates, so all pools that updates read or
/// write are in host memory. Votes and norms are in pinned memory, which device and host access.
device::tier pool_tier(const plan::plan_options& options, plan::pool which, device::tier windows);

}  // namespace troupe::actors
