// Formats `troupe plan --estimate`: rules of thumb next to the plan's own numbers. Text only.
#pragma once

#include <string>

#include "job/blueprint.hpp"
#include "plan/choose/cost.hpp"

namespace troupe::apps {

/// Returns DeepSpeed's memory estimates for the model, with the ranks as the GPUs of one node; the constant sizes of
/// its states; the plan's own memory peak; and the efficiency that ZeRO-Infinity's bandwidth model predicts for this
/// machine with states on its disk.
std::string estimate_summary(const job::blueprint& b, const plan::cost_model& costs);

/// Returns the efficiency that ZeRO-Infinity's bandwidth model predicts, a line for each kind of state.
std::string efficiency_summary(const job::blueprint& b, const plan::cost_model& costs);

}  // namespace troupe::apps
