// Where the first host of a job waits for the agents of the others.
#pragma once

#include "apps/run/launch_processes.hpp"

namespace troupe::apps {

/// Listens as `cluster.listen` says, and takes hosts of `cluster.hosts` alone, whose certificates say so. Errors:
/// bad_input for certificates that do not serve; limit for an address that the system refuses.
core::result<agents_of_hosts> listen_for_agents(const config::job_config& config);

}  // namespace troupe::apps
