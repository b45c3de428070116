// `troupe plan --json`: the summary of a plan as one JSON object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "job/blueprint.hpp"
#include "plan/choose/cost.hpp"

namespace troupe::apps {

/// Memory by owner of each rank (or of one rank of each class, with the number of ranks like it), the predicted step of
/// the plan `mine` and what its disk moves; `saving`: the step in which a checkpoint is taken, where there is one.
std::string plan_as_json(const job::blueprint& b, const plan::timeline& timeline, uint32_t mine,
                         const plan::timeline* saving);

}  // namespace troupe::apps
