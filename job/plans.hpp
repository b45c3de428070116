// The plans of a configuration, for programs that read, simulate or draw them. Owns which plans such programs get;
// blueprint.hpp makes them.
#pragma once

#include <memory>
#include <vector>

#include "core/error.hpp"
#include "plan/plan_choice.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::config {
struct job_config;
}

namespace troupe::job {

/// Writes and proves the plans of the kind of step `which` and returns those of all ranks, in rank order. Reads the
/// model that the configuration names; runs nothing and allocates no states. Errors: those of make_blueprint, among
/// them a configuration that does not fit its memory, and every error of the plan checker.
core::result<std::vector<std::shared_ptr<const plan::rank_plan>>> make_plans(
    std::shared_ptr<const config::job_config> config, plan::plan_choice which = plan::plan_choice::train);

}  // namespace troupe::job
