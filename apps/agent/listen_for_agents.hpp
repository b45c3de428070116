// Where the first host of a job waits for the agents of the others. Owns who is let in.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "apps/agent/introduction.hpp"
#include "apps/run/launch_processes.hpp"
#include "net/endpoint.hpp"

namespace troupe::apps {

/// Decides about an agent on a host of `cluster.hosts` that is not the first: why it may not come in; empty: it may.
using agent_check = std::function<std::string(const std::string& host, const introduction& said)>;

/// Listens as `cluster.listen` says, with the first host's certificate. Errors: as below.
core::result<std::unique_ptr<net::endpoint>> open_door(const config::loaded& job, agent_check check);

/// 32 bytes; empty where the system has no random ones: a term with such a secret is refused where it begins.
std::string draw_term_secret();

/// Listens as `cluster.listen` says, and takes hosts of `cluster.hosts` alone, whose certificates say so, with agents
/// of this version and this job. Errors: bad_input for certificates that do not serve; limit for an address that the
/// system refuses.
core::result<agents_of_hosts> listen_for_agents(const config::loaded& job);

}  // namespace troupe::apps
