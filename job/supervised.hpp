// Converts the `cluster` section of a configuration for the supervisor of the job's processes (cluster/launch.hpp):
// their number, their ranks, and the degrees that remain after a loss. Owns this conversion; the program starts the
// processes.
#pragma once

#include "cluster/supervision.hpp"
#include "config/sections/job_config.hpp"

namespace troupe::job {

/// Returns the supervised job of `config`, which must be as loaded, without open degrees: its data degree is the
/// maximum of a term.
cluster::supervised_job supervised(const config::job_config& config);

}  // namespace troupe::job
