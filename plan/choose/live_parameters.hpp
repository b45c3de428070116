// How much of the model is whole at once, for people: in parameters, where memory_table counts bytes.
#pragma once

#include <cstdint>
#include <string>

#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// The most elements of parameters that are gathered at the same time. A parameter that two units share counts once,
/// though each unit's slot has it; so this is never above the model's size. 0 where nothing is gathered.
uint64_t peak_live_parameters(const rank_plan& p);

/// Where all parameters are whole at once: `: ` and the setting that keeps them so. Empty where they are not.
std::string why_whole(const rank_plan& p);

}  // namespace troupe::plan
