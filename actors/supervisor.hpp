// The supervisor: one per job. Takes one order at a time, checks that the ranks agree, and turns the first failure into
// the run's one answer; then it tells all ranks to give up.
#pragma once

#include <memory>
#include <optional>

#include "actors/messages.hpp"

namespace troupe::actors {

struct supervisor_state {        ///< a supervisor's state between messages
  supervisor_state() = default;  // no aggregate: CAF would try to initialise its first member with the actor
  /// Runs when the actor ends, however it ends, and answers a pending order: CAF drops a promise without a word.
  ~supervisor_state();
  static inline const char* name = "supervisor";

  node_agent_actor agent;
  caf::response_promise asker;
  plan::plan_choice which = plan::plan_choice::train;
  uint64_t run = 0;
  bool running = false;
  bool save_asked = false;                     ///< by `save_now`, until a training step reports it
  std::shared_ptr<const core::error> failure;  ///< the first one; nothing runs any more once it is set
};

/// `agent` gives the node agent once it is spawned; called at the first message.
supervisor_actor::behavior_type supervisor_impl(supervisor_actor::stateful_pointer<supervisor_state> self,
                                                std::function<node_agent_actor()> agent);

/// Pure: an error when the ranks' verdicts differ in any bit.
std::optional<core::error> disagreement(const rank_reports& ranks);

}  // namespace troupe::actors
