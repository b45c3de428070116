// Supports hosts with an actor system of their own: Troupe's part of its settings, and typed handles of a session's
// actors. Hosts that only call a session include actors/session/session.hpp instead and need no CAF headers.
#pragma once

#include <vector>

#include "actors/messages.hpp"
#include "core/error.hpp"

namespace troupe::actors {

/// Adds Troupe's messages to the settings of a host's actor system. Call it before the system is made from these
/// settings.
void add_message_types(caf::actor_system_config& settings);

/// Checks that a session can run in `system`. Errors (bad_input): a message type is missing, or the scheduler runs
/// nothing by itself (`scheduler.policy` testing).
core::result<void> check_system(caf::actor_system& system);

/// The actors of a session except the lanes, whose handles only their ranks have. A host may monitor all of them, send
/// the supervisor `give_up` (as session::stop does) or `save_now`, and request a micro-batch from the loader
/// (`next_batch`, a pure function of the data that does not disturb training). Only Troupe's actors may send the other
/// messages. Release the handles before the system ends.
struct session_actors {
  supervisor_actor supervisor;
  node_agent_actor agent;
  loader_actor loader;
  telemetry_actor telemetry;
  std::vector<rank_actor> ranks;  ///< [rank]: the rank actors
};

}  // namespace troupe::actors
