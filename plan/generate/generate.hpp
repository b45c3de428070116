// Makes the plan of one rank from the layout that all ranks share, for every kind of step (plan::mode) and every ZeRO
// stage. Owns the sequence of phases: schedule, write, passes, place.
#pragma once

#include <memory>

#include "core/error.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Makes the plan of `rank`, which must be below the layout's number of ranks. The plans of all ranks have equal
/// collectives in the same order; the checker (check.hpp) proves it. Fails only for passes that the host program
/// has added: if contracts contradict each other, or if a pass throws or does not end.
core::result<std::shared_ptr<const rank_plan>> generate(std::shared_ptr<const job_layout> layout, uint32_t rank);

}  // namespace troupe::plan
