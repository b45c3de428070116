// Converts a configuration to the options of the plan generator.
#pragma once

#include "config/sections/job_config.hpp"
#include "plan/options.hpp"

namespace troupe::job {

/// Returns the plan options that the configuration determines for one kind of step, without those that depend on the
/// model (update rules, pipeline). Pure. Sizes that the configuration leaves to the plan have default values.
plan::plan_options options_from(const config::job_config& config, plan::mode mode);

}  // namespace troupe::job
