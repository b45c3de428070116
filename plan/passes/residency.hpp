// When each unit's parameters are gathered and released at stage 3: the coordinator's rules (fetch, prefetch,
// release) played once over the known sequence of uses, instead of being learnt while running.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// One use of a unit's parameters, in order over the whole step.
struct unit_use {
  uint32_t unit = 0, micro = 0;
  plan::use kind = use::forward;
};

struct residency {
  std::vector<unit_use> uses;
  std::vector<std::vector<uint32_t>> gathers_at;  ///< [use]: uses whose gather is issued when this use begins
  std::vector<uint32_t> gathered_for;  ///< [use]: the use whose gather serves it; none where nothing is gathered
  std::vector<bool> release_after;     ///< [use]
  uint64_t peak_live_elements = 0;
};

/// Forward in order, backward in reverse, for every micro-batch. Forward only unless training.
std::vector<unit_use> make_uses(const rank_plan& p);

/// Plays fetch, prefetch and release. `prefetch_bucket` and `max_live` limit prefetch only; a unit that is used again
/// within `max_reuse_distance` elements, or whose later use a prefetch found resident, is kept.
/// Source: DeepSpeed's parameter coordinator (partitioned_param_coordinator.py).
residency plan_residency(const rank_plan& p);

}  // namespace troupe::plan
