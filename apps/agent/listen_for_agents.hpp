// Accepts the agents of the other hosts on the first host of a job, through agent_listener.hpp, and draws the secret of
// each term (the time in which a job's processes stay the same).
#pragma once

#include <string>

#include "apps/run/launch_processes.hpp"
#include "config/load.hpp"

namespace troupe::apps {

/// Returns 32 random bytes, the secret by which the processes of a new term authenticate each other. Empty if the
/// system has no random bytes; a term with an empty secret is refused when it begins.
std::string draw_term_secret();

/// Listens for agents that run this program's version and belong to `job`, with the same configuration. `names_hosts`:
/// see admission_rules. Errors: those of agent_listener::open.
core::result<agents_of_hosts> listen_for_agents(const config::loaded& job, bool names_hosts, const say_function& say);

}  // namespace troupe::apps
