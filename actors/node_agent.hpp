// The node agent, one actor per process: forwards the supervisor's orders to the ranks of this process, reports to the
// supervisor when all of them have ended a run, and detects when one of them dies. Decides nothing.
#pragma once

#include <vector>

#include "actors/messages.hpp"

namespace troupe::actors {

struct numbered_rank {  ///< a rank of this process: its number in the job, and its actor
  uint32_t number = 0;
  rank_actor actor;
};

struct node_agent_state {
  node_agent_state() = default;  // not an aggregate: CAF would try to initialise its first member with the actor
  static inline const char* name = "node_agent";

  supervisor_actor supervisor;
  std::vector<numbered_rank> ranks;
  std::shared_ptr<rank_reports> reports;  ///< results of the ranks of this process that have ended the current run, for
                                          ///< the supervisor
  size_t running = 0;                     ///< number of ranks that have not ended the current run
  uint64_t run = 0;
};

/// Makes the behavior of a node agent. `ranks` returns the handles of this process's ranks; it is called at the first
/// message, when all ranks are spawned.
node_agent_actor::behavior_type node_agent_impl(node_agent_actor::stateful_pointer<node_agent_state> self,
                                                supervisor_actor supervisor,
                                                std::function<std::vector<numbered_rank>()> ranks);

}  // namespace troupe::actors
