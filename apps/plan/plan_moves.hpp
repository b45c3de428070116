// Compares the traffic and memory of a pipeline's settings with other possible settings. Owns the list of alternatives.
// Leaves the plans to plan/.
#pragma once

#include <string>

#include "job/blueprint.hpp"

namespace troupe::apps {

/// Returns a row for the run's settings and for each other gradient order and reuse distance: gathers and reductions of
/// the busiest rank, their bytes, and its memory. Empty if there are no alternatives.
std::string moves_summary(const job::blueprint& b);

}  // namespace troupe::apps
