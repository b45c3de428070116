// The supervisor: one per job. Takes one order at a time, knows whether the ranks agree, and turns the first failure
// into the run's one answer; everything after it is told to give up.
#pragma once

#include <memory>
#include <optional>

#include "actors/messages.hpp"

namespace troupe::actors {

struct supervisor_state {        ///< what a supervisor keeps between messages
  supervisor_state() = default;  // no aggregate: CAF would try to initialise its first member with the actor
  /// Runs when the actor ends, however it ends: whoever asked gets an answer even then. CAF drops a promise in silence.
  ~supervisor_state();
  static inline const char* name = "supervisor";

  node_agent_actor agent;
  caf::response_promise asker;
  plan::plan_choice which = plan::plan_choice::train;
  uint64_t run = 0;
  bool running = false;
  bool save_asked = false;                     ///< by `save_now`, until a training step tells of it
  std::shared_ptr<const core::error> failure;  ///< the first one; nothing runs any more once it is set
};

/// `agent` gives the node agent once it is spawned; called at the first message.
supervisor_actor::behavior_type supervisor_impl(supervisor_actor::stateful_pointer<supervisor_state> self,
                                                std::function<node_agent_actor()> agent);

/// Pure: an error when the ranks' verdicts differ in any bit.
std::optional<core::error> disagreement(const std::vector<std::shared_ptr<step_context>>& ranks);

}  // namespace troupe::actors
