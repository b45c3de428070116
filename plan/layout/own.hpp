// One rank's own part before any instruction is written: places of its elements, its sub-groups, what it swaps and
// saves. Functions of the layout that all ranks share and the rank's number.
#pragma once

#include <memory>

#include "plan/layout/rank_slices.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Where the slices and states of a rank lie.
rank_offsets offsets_of(const rank_slices& of_rank);

/// A plan of `rank` with everything but instructions, lanes, buffers and memory.
rank_plan own_part(std::shared_ptr<const job_layout> layout, uint32_t rank);

}  // namespace troupe::plan
