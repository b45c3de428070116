// The plan generator's options from a configuration.
#pragma once

#include "config/sections/job_config.hpp"
#include "plan/options.hpp"

namespace troupe::job {

/// Pure; without `optimizer` and `pipeline`, which depend on the model. Numbers that the configuration leaves to the
/// plan have their defaults here.
plan::plan_options options_from(const config::job_config& config, plan::mode mode);

}  // namespace troupe::job
