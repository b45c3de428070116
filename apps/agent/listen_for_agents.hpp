// Accepts the agents that a job waits for on its first host, through agent_door.hpp, and draws the secrets of terms.
#pragma once

#include <string>

#include "apps/run/launch_processes.hpp"
#include "config/load.hpp"

namespace troupe::apps {

/// Returns 32 random bytes; empty if the system has none, and then a term with that secret is refused when it begins.
std::string draw_term_secret();

/// Listens for agents of this version, this job and this configuration. Errors: those of agent_door::open.
core::result<agents_of_hosts> listen_for_agents(const config::loaded& job, bool names_hosts, const say_function& say);

}  // namespace troupe::apps
