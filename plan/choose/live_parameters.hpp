// Computes how many parameters of the model are gathered at the same time at most, for display; the bytes that they
// occupy are in memory_table.
#pragma once

#include <cstdint>
#include <string>

#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Returns the most elements of parameters that are gathered at the same time. A parameter that two units share counts
/// once, though each unit's slot has it; the result is therefore never above the model's size. 0 if nothing is
/// gathered.
uint64_t peak_live_parameters(const rank_plan& p);

/// Returns `: ` and the setting because of which all parameters are gathered at the same time; empty if they never are.
std::string why_whole(const rank_plan& p);

}  // namespace troupe::plan
