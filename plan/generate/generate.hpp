// Makes plans: data parallel x ZeRO 0 to 3 x gradient accumulation, forward-only plans, generation. Owns the sequence
// of phases: schedule, write, passes, place.
#pragma once

#include <memory>

#include "core/error.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// The plan of `rank`, one below the layout's ranks. Every rank's plan has the same collectives in the same order. The
/// checker (check.hpp) proves it. Fails only for passes that a program has added: their contracts contradict each
/// other's or ours, one throws or does not end.
core::result<std::shared_ptr<const rank_plan>> generate(std::shared_ptr<const job_layout> layout, uint32_t rank);

}  // namespace troupe::plan
