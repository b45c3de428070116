// Owns the count of a rank's resident bytes by owner, after its pools have their final sizes. docs/numerics.md has the
// formulas.
#pragma once

#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Computes the memory table `p.memory` from the layouts and the pools of the plan.
void count_memory(rank_plan& p);

}  // namespace troupe::plan
