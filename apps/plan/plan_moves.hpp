// Compares the traffic and memory of a pipeline's settings with other possible settings. Owns the list of alternatives.
// Leaves the plans to plan/.
#pragma once

#include <string>

#include "job/blueprint.hpp"

namespace troupe::apps {

/// Returns a table with a row for the run's settings and a row for each other value of `gradient_order` and
/// `stage3_max_reuse_distance`: number and bytes of all-gathers and gradient reductions of the busiest rank in a step,
/// and its memory. Empty if there are no alternatives.
std::string moves_summary(const job::blueprint& b);

}  // namespace troupe::apps
