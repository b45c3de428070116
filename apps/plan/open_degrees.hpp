// Prints the degrees that a job leaves open: `troupe plan --degrees`, and the line before a run uses them. Owns the
// texts. Leaves the choice to job/degrees.hpp, and the runs that measure to actors/session/degrees.cpp.
#pragma once

#include "apps/plan/show_plan.hpp"
#include "config/load.hpp"
#include "plan/choose/cost.hpp"

namespace troupe::apps {

/// Prints every way to divide the ranks among the open degrees. Returns the exit status: 0 if some way can run, 1 if
/// none can, 2 if no degree is open.
int show_degrees(const config::loaded& loaded, const plan_arguments& a, const plan::cost_model& costs);

/// Takes the way that a run in the job's folder would take without running anything, and prints it. Returns nothing if
/// that succeeds or all degrees are given, and the exit status if no way can run.
std::optional<int> take_predicted_degrees(config::loaded& loaded, const plan::cost_model& costs);

/// Prints the error and returns the exit status, as `failed` does; if a file or an option sets the key that begins the
/// error, adds its place.
int failed_at(const core::error& e, const config::loaded& loaded);

}  // namespace troupe::apps
