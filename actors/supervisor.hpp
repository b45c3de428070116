// The supervisor: one per job. Takes one order at a time, knows whether the ranks agree, and turns the first failure
// into the run's one answer; everything after it is told to give up.
#pragma once

#include <memory>
#include <optional>

#include "actors/messages.hpp"

namespace troupe::actors {

struct supervisor_state {
  supervisor_state() = default;  // no aggregate: CAF would try to initialise its first member with the actor
  /// Runs when the actor ends, however it ends: whoever asked gets an answer even then. CAF drops a promise in silence.
  ~supervisor_state();
  static inline const char* name = "supervisor";

  node_agent_actor agent;
  telemetry_actor telemetry;  ///< may be empty
  caf::response_promise asker;
  plan_choice which = plan_choice::train;
  uint64_t run = 0, step = 0;
  bool running = false;
  std::shared_ptr<const core::error> failure;  ///< the first one; nothing runs any more once it is set
};

/// `links` gives agent and telemetry once they are spawned; called at the first message.
supervisor_actor::behavior_type supervisor_impl(supervisor_actor::stateful_pointer<supervisor_state> self,
                                                std::function<std::pair<node_agent_actor, telemetry_actor>()> links);

/// Pure: an error when the ranks' verdicts differ in any bit.
std::optional<core::error> disagreement(const std::vector<std::shared_ptr<step_context>>& ranks);

}  // namespace troupe::actors
