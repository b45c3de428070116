// The hands of simulated lanes: they compute and move nothing but the votes, let the time pass that the cost model
// predicts, log what happened, and fail when a fault says so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/executor.hpp"
#include "actors/meetings.hpp"
#include "plan/choose/cost.hpp"

namespace troupe::actors {

/// Faults of a simulated world.
enum class sim_fault_kind : uint8_t {
  none,
  slow_lane,     ///< a compute or shard lane takes `factor` times as long; the run ends right
  late_message,  ///< one channel falls silent for `delay`; the run ends right
  freeze_lane,   ///< this and the next five: something does nothing for `delay`, and the run ends right. A lane
  freeze_rank,
  freeze_watcher,  ///< a rank's look around comes late
  freeze_loader,
  freeze_disk,     ///< every request to it
  freeze_process,  ///< all actors at once: stopped and continued
  kill_rank,       ///< this and the next four: an actor is killed
  kill_lane,
  kill_agent,
  kill_supervisor,
  kill_loader,
  executor_error,      ///< an instruction fails
  executor_exception,  ///< an instruction throws
  wrong_identity,      ///< a rank posts a collective that the others know by another name
  bad_vote,            ///< a rank sees another vote than the others
  silence,             ///< an instruction never ends; of a disk's lane, the host is told and stops the run
};
std::string_view name_of(sim_fault_kind kind);  ///< as tests and seeds print it

/// Whether the fault ends the run; else it only takes longer.
constexpr bool is_deadly(sim_fault_kind k) { return k >= sim_fault_kind::kill_rank; }

/// One fault: what, where, and when. `position` counts in the lane's order; kills, freezes and delays strike once
/// `after_events` instructions have started or ended on any rank.
struct sim_fault {
  sim_fault_kind kind = sim_fault_kind::none;
  uint64_t run = 1;  ///< as step_order counts, from 1
  uint32_t rank = 0;
  plan::lane lane = plan::lane::compute;
  uint32_t position = 0;
  uint64_t after_events = 0;
  double factor = 1;
  std::chrono::nanoseconds delay{0};
  [[nodiscard]] std::string describe() const;
};

/// An instruction of a lane other than control has started or ended.
struct sim_event {
  uint64_t run = 0;
  int64_t time_ns = 0;
  uint32_t rank = 0, id = 0;
  bool end = false;
  bool operator==(const sim_event&) const = default;
};

/// The largest norm of gradients that is not clipped: above those of runs that no one asked to clip.
inline constexpr double modelled_norm_limit = 1e3;

/// State that all simulated lanes share. Single-threaded.
struct modelled_world {
  plan::cost_model costs;
  double noise = 0;  ///< instructions take [1, 1 + noise) times the predicted time
  uint64_t seed = 0;
  sim_fault fault;
  bool struck = false;           ///< the fault has happened
  uint64_t overflow_in_run = 0;  ///< the run whose gradient is not finite; 0: none
  uint64_t clip_in_run = 0;      ///< the run whose gradient is above `modelled_norm_limit`; 0: none
  std::function<int64_t()> now_ns;
  int64_t disk_free_ns = 0;          ///< when the disk has written all that was handed to it
  int64_t disk_frozen_until_ns = 0;  ///< no request to it ends before
  std::vector<sim_event> log;

  void note(const step_context& c, uint32_t id, bool end) {
    log.push_back({c.order.run, now_ns(), c.plan().rank, id, end});
  }
  /// Whether the fault is of this kind and strikes here and now.
  bool strikes(sim_fault_kind kind, const step_context& c, const plan::instruction& x);
  void freeze_disk(std::chrono::nanoseconds delay);
};

/// Whether the lane's instructions wait for a disk.
constexpr bool asks_disk(plan::lane l) { return l == plan::lane::writer || l == plan::lane::io; }

/// For any lane of a rank but the fabric lane.
std::unique_ptr<executor> make_modelled_executor(std::shared_ptr<modelled_world> world);
/// For its fabric lane: production's identities over any communicators, without memory except the vote's.
std::unique_ptr<executor> make_modelled_fabric_executor(std::shared_ptr<modelled_world> world,
                                                        memberships communicators);

}  // namespace troupe::actors
