// For hosts (programs that embed Troupe) that have a CAF actor system of their own: adds Troupe's message types to its
// settings, and defines typed handles of a session's actors. Programs that only call a session include
// actors/session/session.hpp instead and need no CAF headers.
#pragma once

#include <vector>

#include "actors/messages.hpp"
#include "core/error.hpp"
#include "data/batch.hpp"

namespace troupe::actors {

/// Adds Troupe's message types to the settings of the host program's actor system. Call it before the actor system
/// is made from these settings.
void add_message_types(caf::actor_system_config& settings);

/// Checks that a session can run in `system`. Errors (bad_input): a message type is missing, or the scheduler runs
/// nothing by itself (`scheduler.policy` testing).
core::result<void> check_system(caf::actor_system& system);

/// The actors of a session except the lanes, whose handles only their ranks have. The host program may monitor all
/// of them, send the supervisor `give_up` (as session::stop does) or `save_now`, and request a micro-batch from the
/// loader (`next_batch`, a pure function of the data that does not disturb training). All other messages may only be
/// sent by Troupe's actors. Release the handles before the actor system ends.
struct session_actors {
  supervisor_actor supervisor;
  node_agent_actor agent;
  loader_actor loader;
  telemetry_actor telemetry;
  std::vector<rank_actor> ranks;  ///< [rank]: the rank actors
};

}  // namespace troupe::actors
