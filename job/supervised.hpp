// Converts the `cluster` section of a configuration for the supervisor of the job's processes (cluster/launch.hpp):
// their number, their ranks, and the degrees that remain after a loss. Owns this conversion; the calling program starts
// the processes.
#pragma once

#include "cluster/supervised_job.hpp"
#include "config/sections/job_config.hpp"

namespace troupe::job {

/// Returns the job in the form in which the supervisor of its processes needs it. All parallel degrees of `config` must
/// be set, as they are after loading; its data degree is the largest that the job may have while it loses and regains
/// processes.
cluster::supervised_job supervised(const config::job_config& config);

}  // namespace troupe::job
