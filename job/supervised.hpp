// Converts the `cluster` section of a configuration for the supervisor of the job's processes (cluster/launch.hpp):
// their number, their ranks, and the degrees that remain after a loss. Owns this conversion; the program starts the
// processes.
#pragma once

#include "cluster/supervision.hpp"
#include "config/sections/job_config.hpp"

namespace troupe::job {

/// Returns the supervised job of `config`, whose parallel degrees must all be set, as they are after loading. The data
/// degree of `config` is the largest that a term of the job may have.
cluster::supervised_job supervised(const config::job_config& config);

}  // namespace troupe::job
