// What a configuration says of the processes of its job, as their supervisor takes it: how many, with which ranks,
// which degrees are left after a loss. Owns the reading of `cluster` for cluster/launch.hpp; how they are started is
// the program's.
#pragma once

#include "cluster/supervision.hpp"
#include "config/sections/job_config.hpp"

namespace troupe::job {

/// `config` as it was loaded, without open degrees: its data degree is the most that a term may have.
cluster::supervised_job supervised(const config::job_config& config);

}  // namespace troupe::job
