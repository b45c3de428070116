// Converts a configuration to the options of the plan generator.
#pragma once

#include "config/sections/job_config.hpp"
#include "plan/options.hpp"

namespace troupe::job {

/// Returns the configuration's plan options for one kind of step, without `optimizer` and `pipeline`, which depend on
/// the model. Pure. Numbers that the configuration leaves to the plan have default values.
plan::plan_options options_from(const config::job_config& config, plan::mode mode);

}  // namespace troupe::job
