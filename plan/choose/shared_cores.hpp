// How long a step takes where ranks share the cores of a machine: whatever computes or copies needs one, and where more
// of it wants to run than there are cores, all of it runs slower. Owns this way of playing a step, which compares
// degrees (job/degrees.hpp); with a core for each rank and free copies it is cost.hpp's.
#pragma once

#include "plan/choose/cost.hpp"

namespace troupe::plan {

/// Seconds of a step that is neither skipped nor clipped. Lanes in order and dependencies as `play` has them; a
/// collective is work of every member, and over when all have done theirs. Disks take no core. `cores` is at least 1.
/// Deterministic. One plan of each class may be given, with the number of ranks it stands for.
double predict_on_cores(rank_plans ranks, const cost_model& costs, uint32_t cores,
                        std::vector<uint32_t> stands_for = {});

}  // namespace troupe::plan
