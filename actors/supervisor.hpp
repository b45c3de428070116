// The supervisor, one actor for the ranks of each process: executes one order to run a plan at a time, checks that the
// results of its ranks are equal, and on the first failure ends the run with that failure and tells all its ranks to
// stop. In a job of several processes, cluster/supervision.hpp supervises the processes.
#pragma once

#include <memory>
#include <optional>

#include "actors/messages.hpp"
#include "actors/rank_report.hpp"

namespace troupe::actors {

struct supervisor_state {        ///< a supervisor's state between messages
  supervisor_state() = default;  // not an aggregate: CAF would try to initialise its first member with the actor
  /// Answers an order that is still running when the actor ends, for any reason, because CAF would leave its sender
  /// waiting.
  ~supervisor_state();
  static inline const char* name = "supervisor";

  node_agent_actor agent;
  caf::response_promise asker;
  plan::plan_choice which = plan::plan_choice::train;
  uint64_t run = 0;
  bool running = false;
  bool save_asked = false;  ///< true: `save_now` has arrived and no training step has reported it yet
  std::shared_ptr<const core::error> failure;  ///< the first failure; once it is set, no order runs any more
};

/// Makes the behavior of a supervisor. `agent` returns the node agent once it is spawned; called at the first message.
supervisor_actor::behavior_type supervisor_impl(supervisor_actor::stateful_pointer<supervisor_state> self,
                                                std::function<node_agent_actor()> agent);

/// Returns an error if the losses or the square sums in the ranks' verdicts differ in any bit. Pure.
std::optional<core::error> disagreement(const rank_reports& ranks);

}  // namespace troupe::actors
