// The lane actor: starts the instructions of one lane of a rank (compute, fabric, shard, writer or io); each lane has
// another executor. If a rank computes several chunks of a pipelined model, its compute lane consists of one such actor
// per chunk, the stages, which run in turns in the plan's order. Owns the decision when an instruction starts; the
// executor does the work. Production and simulation run the same code.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/executor.hpp"
#include "actors/messages.hpp"

namespace troupe::actors {

/// Handles of the actors of one rank. Filled once, when the actors are created, before the first message.
struct rank_links {
  rank_actor rank;
  /// [seat, the number of a lane actor within its rank]: handle of the lane actor. The control lane's handle stays
  /// empty, because the rank actor runs that lane.
  std::vector<lane_actor> lanes = std::vector<lane_actor>(plan::num_lanes);
};

struct lane_state {        ///< a lane's state between messages
  lane_state() = default;  // not an aggregate: CAF would try to initialise its first member with the actor
  static inline const char* name = "lane";

  plan::lane mine = plan::lane::compute;
  uint32_t chunk = 0;  ///< chunk of the model that this compute-lane actor computes; 0 for other lanes
  std::unique_ptr<executor> hands;
  std::shared_ptr<rank_links> links;
  sequencer order;
  std::shared_ptr<step_context> context;
  std::vector<instruction_ended> early;  ///< messages from lanes that have begun a later run than this lane
  uint32_t reported = 0;                 ///< number of ended instructions that this lane has reported to its rank
  uint32_t num_pending = 0;              ///< number of this lane's instructions that have started and not ended
  bool failed = false;
};

/// Number of instructions that end between two reports of a lane to its rank. The number of instructions that a lane
/// may start ahead of its last report (window_instructions in program.hpp) is several times larger.
inline constexpr uint32_t progress_batch = 16;

/// Returns the name of lane actor `seat` of a rank with `seats` seats: "compute lane", or "compute lane, chunk 1" if
/// the rank has several chunks.
std::string name_of_seat(uint32_t seat, size_t seats);

/// Makes the behavior of a lane actor. The caller of spawn chooses its thread: one of its own, one that stages share,
/// or the test scheduler.
lane_actor::behavior_type lane_impl(lane_actor::stateful_pointer<lane_state> self, plan::lane mine, uint32_t chunk,
                                    std::function<std::unique_ptr<executor>()> make_executor,
                                    std::shared_ptr<rank_links> links);

}  // namespace troupe::actors
