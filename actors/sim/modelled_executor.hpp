// Executors of simulated lanes: they compute and move nothing but the votes, let the time pass that the cost model
// predicts, log each start and end, and fail if a fault requires it.
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

/// Kinds of faults that a simulation injects.
enum class sim_fault_kind : uint8_t {
  none,
  slow_lane,     ///< a compute or shard lane takes `factor` times as long; the run ends well
  late_message,  ///< one channel delivers nothing for `delay`; the run ends well
  /// A lane does nothing for `delay`; this and the next five kinds stop something for a time, and the run ends well.
  freeze_lane,
  freeze_rank,
  freeze_watcher,  ///< a rank's look_around message to itself is delivered late
  freeze_loader,
  freeze_disk,     ///< no request to the disk ends for `delay`
  freeze_process,  ///< all actors do nothing for `delay`, as in a process that is stopped and continued
  kill_rank,       ///< the actor of a rank is killed; the kinds up to kill_loader kill another actor each
  kill_lane,
  kill_agent,
  kill_supervisor,
  kill_loader,
  executor_error,      ///< an instruction returns an error
  executor_exception,  ///< an instruction throws an exception
  wrong_identity,      ///< a rank posts a collective with another identity than the other ranks
  bad_vote,            ///< a rank's vote differs from that of the others
  silence,  ///< an instruction never ends; on a lane that uses a disk, the host is notified and stops the run
};
std::string_view name_of(sim_fault_kind kind);  ///< Returns the fault's name as tests and seeds print it.

/// True if the fault ends the run; false if it only delays it.
constexpr bool is_deadly(sim_fault_kind k) { return k >= sim_fault_kind::kill_rank; }

/// One fault: its kind, place and time. `position` counts in the lane's order; kills, freezes and delays happen once
/// `after_events` instructions have started or ended on any rank.
struct sim_fault {
  sim_fault_kind kind = sim_fault_kind::none;
  uint64_t run = 1;  ///< number of the run that the fault hits, from 1, as step_order counts runs
  uint32_t rank = 0;
  plan::lane lane = plan::lane::compute;
  uint32_t position = 0;
  uint64_t after_events = 0;
  double factor = 1;
  std::chrono::nanoseconds delay{0};
  [[nodiscard]] std::string describe() const;
};

/// Start or end of an instruction of a lane other than control.
struct sim_event {
  uint64_t run = 0;
  int64_t time_ns = 0;
  uint32_t rank = 0, id = 0;
  bool end = false;
  bool operator==(const sim_event&) const = default;
};

/// Limit of the gradient norm in simulated runs that clip: larger than the norms of all runs that must not clip.
inline constexpr double modelled_norm_limit = 1e3;

/// State that all simulated lanes share. Single-threaded.
struct modelled_world {
  plan::cost_model costs;
  double noise = 0;  ///< noise of the times: an instruction takes [1, 1 + noise) times its predicted time
  uint64_t seed = 0;
  sim_fault fault;
  bool struck = false;           ///< true: the fault has happened
  uint64_t overflow_in_run = 0;  ///< number of the run whose gradient is not finite; 0: none
  uint64_t clip_in_run = 0;      ///< number of the run whose gradient norm is above `modelled_norm_limit`; 0: none
  std::function<int64_t()> now_ns;
  int64_t disk_free_ns = 0;          ///< time at which the disk has written all data handed to it
  int64_t disk_frozen_until_ns = 0;  ///< no request to the disk ends before this time
  std::vector<sim_event> log;

  void note(const step_context& c, uint32_t id, bool end) {
    log.push_back({c.order.run, now_ns(), c.plan().rank, id, end});
  }
  /// True if the fault is of this kind and happens at this instruction.
  bool strikes(sim_fault_kind kind, const step_context& c, const plan::instruction& x);
  void freeze_disk(std::chrono::nanoseconds delay);
};

/// True if the lane's instructions wait for a disk.
constexpr bool asks_disk(plan::lane l) { return l == plan::lane::writer || l == plan::lane::io; }

/// Makes the executor of any lane of a rank but the fabric lane.
std::unique_ptr<executor> make_modelled_executor(std::shared_ptr<modelled_world> world);
/// Makes the executor of a fabric lane: production's identities over any communicators, without memory except the
/// vote's.
std::unique_ptr<executor> make_modelled_fabric_executor(std::shared_ptr<modelled_world> world,
                                                        memberships communicators);

}  // namespace troupe::actors
