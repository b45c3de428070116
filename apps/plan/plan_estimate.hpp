// `troupe plan --estimate`: what rules of thumb say, beside what the plan knows. Text only.
#pragma once

#include <string>

#include "job/blueprint.hpp"
#include "plan/choose/cost.hpp"

namespace troupe::apps {

/// DeepSpeed's estimators for the model, with the ranks as the GPUs of one node; its static sizes; the plan's own peak;
/// and what ZeRO-Infinity's bandwidth model leaves of this machine's speed with states on its disk.
std::string estimate_summary(const job::blueprint& b, const plan::cost_model& costs);

/// The last part alone, a line per kind of state.
std::string efficiency_summary(const job::blueprint& b, const plan::cost_model& costs);

}  // namespace troupe::apps
