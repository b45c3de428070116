// Writes the result of `troupe plan --fit` (plan/choose/tier_search.hpp) as text, and the chosen tiers as YAML.
#pragma once

#include <string>

#include "plan/choose/tier_search.hpp"

namespace troupe::plan {

/// Returns a line per rung: memory by tier, the step, the bytes that a rank reads and writes, and whether it fits or
/// how much is missing; below, the verdict. If nothing fits, the verdict names the largest unit and the smallest budget
/// that works.
std::string as_text(const tier_ladder& ladder, const fit_request& request);

/// Returns the YAML sections to paste for the chosen rung; swap files are in `folder`.
std::string as_yaml(const fitted& chosen, const std::string& folder);

}  // namespace troupe::plan
