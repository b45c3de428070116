// Owns the rules that decide when each unit's parameters are gathered and released at stage 3. DeepSpeed's
// coordinator has the same rules (fetch, prefetch, release); here they are applied once to the known sequence of uses
// instead of being learnt while running.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/draft.hpp"

namespace troupe::plan {

struct residency {
  std::vector<std::vector<uint32_t>> gathers_at;  ///< [use]: uses whose gather is issued when this use begins
  /// [use]: use (this one or an earlier one) whose gather fetches the parameters that it reads; none if nothing is
  /// gathered.
  std::vector<uint32_t> gathered_for;
  std::vector<bool> release_after;  ///< [use]: true if the unit is released after the use
};

/// Simulates fetch, prefetch and release. `prefetch_bucket` and `max_live` limit prefetch only. A unit is kept if it is
/// used again within `max_reuse_distance` elements, or if a prefetch found it resident for a later use. Source:
/// DeepSpeed's parameter coordinator (partitioned_param_coordinator.py).
residency plan_residency(const job_layout& l, const schedule& uses);

/// The prefetch pass: moves gathers ahead, and removes the gathers of units that are still resident, together with the
/// releases before them.
std::string keep_resident(draft& d, const rank_plan& p);

}  // namespace troupe::plan
