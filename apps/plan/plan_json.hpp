// Formats `troupe plan --json`: the summary of a plan as one JSON object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "job/blueprint.hpp"
#include "plan/choose/cost.hpp"

namespace troupe::apps {

/// Returns the memory of each rank by owner (or of one rank of each class of equal ranks, with the number of ranks),
/// the predicted step of the plan with index `mine`, and its disk traffic. `saving` is the timeline of a step in which
/// a checkpoint is saved; null: the job saves none.
std::string plan_as_json(const job::blueprint& b, const plan::timeline& timeline, uint32_t mine,
                         const plan::timeline* saving);

}  // namespace troupe::apps
