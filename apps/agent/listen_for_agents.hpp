// The agents that a job waits for on its first host: the door of agent_door.hpp, and the secrets of terms.
#pragma once

#include <string>

#include "apps/run/launch_processes.hpp"
#include "config/load.hpp"

namespace troupe::apps {

/// 32 bytes; empty where the system has no random ones: a term with such a secret is refused where it begins.
std::string draw_term_secret();

/// Takes agents of this version, this job and this configuration. Errors: those of agent_door::open.
core::result<agents_of_hosts> listen_for_agents(const config::loaded& job, bool names_hosts, const say_function& say);

}  // namespace troupe::apps
