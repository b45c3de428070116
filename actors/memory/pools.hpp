// The size of each pool of a rank and its kind of memory. Owns these two answers; places inside a pool are the plan's.
#pragma once

#include <cstdint>

#include "device/memory.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::actors {

/// For a rank that trains by `trains` and whose other plans need no more than `sizes`.
uint64_t pool_bytes(const plan::rank_plan& trains, const plan::pool_sizes& sizes, plan::pool which);

/// `windows` is the tier of windows onto files. If states are offloaded, the host updates, so all data that updates
/// read and write lies on the host, too; votes and norms lie where they are computed, and the host reads them.
device::tier pool_tier(const plan::plan_options& options, plan::pool which, device::tier windows);

}  // namespace troupe::actors
