// Makes the times of a simulated run's instructions in the form in which those of a measured one are drawn. Pure.
#pragma once

#include <vector>

#include "apps/simulate/simulation.hpp"
#include "telemetry/spans.hpp"

namespace troupe::apps {

/// Returns the times of all ranks that act in each step of the run, by rank: [step][place among those that act]. An
/// instruction that had not ended when its step failed ends with the step.
std::vector<std::vector<telemetry::rank_spans>> spans_by_step(const simulated_outcome& s);

}  // namespace troupe::apps
