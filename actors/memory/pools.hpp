// Computes the size of each pool of a rank, and its tier of memory. The plan owns the offsets within a pool.
#pragma once

#include <cstdint>

#include "device/memory.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::actors {

/// Returns the bytes of a pool for a rank that trains by `trains` and whose other plans need no more than `sizes`.
uint64_t pool_bytes(const plan::rank_plan& trains, const plan::pool_sizes& sizes, plan::pool which);

/// Returns the tier of a pool; `windows` is the tier of windows onto files. If states are offloaded, the host updates,
/// so all data that updates read and write is on the host, too; votes and norms are where they are computed, and the
/// host reads them.
device::tier pool_tier(const plan::plan_options& options, plan::pool which, device::tier windows);

}  // namespace troupe::actors
