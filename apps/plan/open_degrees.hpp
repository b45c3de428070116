// Prints the parallel degrees that a job leaves open, for `troupe plan --degrees` and for other plans of the job. Owns
// the texts. Leaves the choice to job/degrees.hpp, and the runs that measure to actors/session/degrees.cpp.
#pragma once

#include <optional>

#include "apps/plan/show_plan.hpp"
#include "config/load.hpp"
#include "core/error.hpp"
#include "plan/choose/cost.hpp"

namespace troupe::apps {

/// Prints every division of the ranks among the open degrees. Returns the exit status: 0 if some division can run, 1 if
/// none can, 2 if no degree is open.
int show_degrees(const config::loaded& loaded, const plan_arguments& a, const plan::cost_model& costs);

/// Sets the open degrees to the fastest ones by the step times that a run has stored in the job's folder, or else by
/// the cost model, and prints them. Runs no steps. Returns nothing if the degrees are set now or were not open, and the
/// exit status if no division of the ranks can run.
std::optional<int> take_predicted_degrees(config::loaded& loaded, const plan::cost_model& costs);

/// Prints the error and returns the exit status. If a file or an option sets the key with which the error's text
/// begins, also prints the place of that setting.
int failed_at(const core::error& e, const config::loaded& loaded);

}  // namespace troupe::apps
