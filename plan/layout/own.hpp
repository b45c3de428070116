// Owns the part of a rank's plan that is made before any instruction is written: offsets of the rank's elements, its
// sub-groups, the data that it swaps and saves. Functions of the layout that all ranks share and the rank's number.
#pragma once

#include <memory>

#include "plan/layout/rank_slices.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Computes the offsets of a rank's slices and states in the rank's memory.
rank_offsets offsets_of(const rank_slices& of_rank);

/// Returns a plan of `rank` with everything except instructions, lanes, buffers and memory.
rank_plan own_part(std::shared_ptr<const job_layout> layout, uint32_t rank);

}  // namespace troupe::plan
