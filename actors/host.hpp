// For hosts with an actor system of their own: Troupe's part of its settings, and typed handles of a session's actors.
// Hosts that only call a session need actors/session/session.hpp alone, which spares them CAF's headers.
#pragma once

#include <vector>

#include "actors/messages.hpp"
#include "core/error.hpp"

namespace troupe::actors {

/// Makes Troupe's messages known to a host's actor system. Call it before the system is made from these settings.
void add_message_types(caf::actor_system_config& settings);

/// Whether a session can live in `system`. Errors (bad_input): a message type is missing, or its scheduler runs nothing
/// by itself (`scheduler.policy` testing).
core::result<void> check_system(caf::actor_system& system);

/// The actors of a session except the lanes, which only their ranks know. A host may monitor all of them, send the
/// supervisor `give_up` (as session::stop does) or `save_now`, and ask the loader for a micro-batch (`next_batch`, a
/// pure function of the data: asking disturbs no one). All other messages are sent by these actors alone. Drop the
/// handles before the system ends.
struct session_actors {
  supervisor_actor supervisor;
  node_agent_actor agent;
  loader_actor loader;
  telemetry_actor telemetry;
  std::vector<rank_actor> ranks;  ///< [rank]
};

}  // namespace troupe::actors
