// When each unit's parameters are gathered and released at stage 3: the rules of DeepSpeed's coordinator (fetch,
// prefetch, release) applied once to the known sequence of uses, instead of being learnt while running.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/draft.hpp"

namespace troupe::plan {

struct residency {
  std::vector<std::vector<uint32_t>> gathers_at;  ///< [use]: uses whose gather is issued when this use begins
  std::vector<uint32_t> gathered_for;  ///< [use]: the use whose gather serves it; none where nothing is gathered
  std::vector<bool> release_after;     ///< [use]
};

/// Simulates fetch, prefetch and release. `prefetch_bucket` and `max_live` limit prefetch only; a unit that is used
/// again within `max_reuse_distance` elements, or whose later use a prefetch found resident, is kept. Source:
/// DeepSpeed's parameter coordinator (partitioned_param_coordinator.py).
residency plan_residency(const job_layout& l, const schedule& uses);

/// The pass: moves gathers ahead, and removes those of units that are still resident with the releases before them.
std::string keep_resident(draft& d, const rank_plan& p);

}  // namespace troupe::plan
