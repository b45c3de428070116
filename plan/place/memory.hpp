// Resident bytes of a rank by owner, once its pools are as large as they will be. docs/numerics.md has the formulas.
#pragma once

#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Fills `p.memory` from the layouts and the pools.
void count_memory(rank_plan& p);

}  // namespace troupe::plan
