// How large each pool of a rank is, and what kind of memory it is made of. Owns these two answers; what lies where in a
// pool is the plan's.
#pragma once

#include <cstdint>

#include "device/memory.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::actors {

/// Of a rank that trains by `trains` and whose other plans need no more than `sizes`.
uint64_t pool_bytes(const plan::rank_plan& trains, const plan::pool_sizes& sizes, plan::pool which);

/// `windows` is the tier of those onto files. Where states are offloaded the host updates, and what updates read and
/// write lies with them; votes and norms are written where they are computed and read by the host.
device::tier pool_tier(const plan::plan_options& options, plan::pool which, device::tier windows);

}  // namespace troupe::actors
