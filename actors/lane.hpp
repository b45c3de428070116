// The lane actor: stage, collective and shard owner are lanes with different executors. The compute lane of a rank with
// several chunks is one such actor for each, the stages, which take turns in the plan's order. Owns the decision when
// an instruction starts; its executor does the work. The same code runs in production and in simulation.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/executor.hpp"
#include "actors/messages.hpp"

namespace troupe::actors {

/// Handles of one rank's actors. Filled once, where the system is assembled, before the first message.
struct rank_links {
  rank_actor rank;
  /// [seat], as many as the rank has. Control stays empty: the rank itself runs that lane.
  std::vector<lane_actor> lanes = std::vector<lane_actor>(plan::num_lanes);
};

struct lane_state {        ///< a lane's state between messages
  lane_state() = default;  // no aggregate: CAF would try to initialise its first member with the actor
  static inline const char* name = "lane";

  plan::lane mine = plan::lane::compute;
  uint32_t chunk = 0;  ///< of the rank, where the compute lane is several stages
  std::unique_ptr<executor> hands;
  std::shared_ptr<rank_links> links;
  sequencer order;
  std::shared_ptr<step_context> context;
  std::vector<instruction_ended> early;  ///< from lanes that began the next run before this one did
  uint32_t reported = 0;                 ///< endings that the rank was told of
  uint32_t num_pending = 0;              ///< started, not ended
  bool failed = false;
};

/// Endings between two reports to the rank; the rank's window (rank.hpp) is several times that.
inline constexpr uint32_t progress_batch = 16;

/// "compute lane", "compute lane, chunk 1" where the rank has several.
std::string name_of_seat(uint32_t seat, size_t seats);

/// The caller of spawn chooses where it runs: a thread of its own, one that stages share, or the test scheduler.
lane_actor::behavior_type lane_impl(lane_actor::stateful_pointer<lane_state> self, plan::lane mine, uint32_t chunk,
                                    std::function<std::unique_ptr<executor>()> make_executor,
                                    std::shared_ptr<rank_links> links);

}  // namespace troupe::actors
