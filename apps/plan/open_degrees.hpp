// Degrees that a job leaves open, on the command line: `troupe plan --degrees`, and what a run says before it takes
// them. Owns texts; the choice is job/degrees.hpp's, and what is run for it actors/session/degrees.cpp's.
#pragma once

#include "apps/plan/show_plan.hpp"
#include "config/load.hpp"
#include "plan/choose/cost.hpp"

namespace troupe::apps {

/// Shows every way to share out the ranks. The exit status: 0 where some way can run, else 1; 2 where nothing is open.
int show_degrees(const config::loaded& loaded, const plan_arguments& a, const plan::cost_model& costs);

/// Takes the way that a run in the job's folder would take without running anything, and says which. Nothing where the
/// degrees are given. The exit status where none can run.
std::optional<int> take_predicted_degrees(config::loaded& loaded, const plan::cost_model& costs);

/// As `failed`, with the place of the key that the error begins with, where the file or an option gives it.
int failed_at(const core::error& e, const config::loaded& loaded);

}  // namespace troupe::apps
