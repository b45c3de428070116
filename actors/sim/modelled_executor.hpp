// Executors of simulated lanes: they compute nothing and move only the numbers of the vote, advance the virtual clock
// by the times that the cost model predicts, log each start and end, and fail where an injected fault requires it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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
  late_message,  ///< messages from one actor to another are delayed by `delay`; the run ends well
  /// The actor of a lane handles no message for `delay`. This and the next five kinds stop something for a time, and
  /// the run ends well.
  freeze_lane,
  freeze_rank,
  freeze_watcher,  ///< a rank's look_around message to itself is delivered late
  freeze_loader,
  freeze_disk,     ///< no request to the disk ends for `delay`
  freeze_process,  ///< all actors do nothing for `delay`, as in a process that is stopped and continued
  kill_rank,       ///< the rank actor is killed; each further kind up to kill_loader kills another actor
  kill_lane,
  kill_agent,
  kill_supervisor,
  kill_loader,
  executor_error,      ///< an instruction returns an error
  executor_exception,  ///< an instruction throws an exception
  wrong_identity,      ///< a rank posts a collective that does not match those of the other ranks
  bad_vote,            ///< after the vote, one rank has other numbers than all others
  silence,             ///< an instruction never ends; if its lane uses a disk, only the caller can stop the run
};
std::string_view name_of(sim_fault_kind kind);  ///< Returns the fault's name as tests and seeds print it.

/// True if the fault ends the run; false if it only delays it.
constexpr bool is_deadly(sim_fault_kind k) { return k >= sim_fault_kind::kill_rank; }

/// One injected fault: its kind, the rank, lane and instruction, and its time. `position` is that of the instruction in
/// the lane's order. A kill, freeze or delay happens once `after_events` instructions have started or ended on any
/// rank.
struct sim_fault {
  sim_fault_kind kind = sim_fault_kind::none;
  uint64_t run = 1;  ///< number of the run in which the fault happens, from 1, as step_order counts runs
  uint32_t rank = 0;
  plan::lane lane = plan::lane::compute;
  uint32_t position = 0;
  uint64_t after_events = 0;
  double factor = 1;
  std::chrono::nanoseconds delay{0};
  [[nodiscard]] std::string describe() const;
};

/// An entry of the log: the start or the end of an instruction of any lane but control.
struct sim_event {
  uint64_t run = 0;
  int64_t time_ns = 0;
  uint32_t rank = 0, id = 0;
  bool end = false;
  bool operator==(const sim_event&) const = default;
};

/// Limit of the gradient norm in simulated runs that clip: larger than the norms of all runs that must not clip.
inline constexpr double modelled_norm_limit = 1e3;

/// State that all simulated lanes share; used by one thread.
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
  /// True if the fault is of kind `kind` and happens at instruction `x` of the run `c`; then also marks it as having
  /// happened.
  bool strikes(sim_fault_kind kind, const step_context& c, const plan::instruction& x);
  void freeze_disk(std::chrono::nanoseconds delay);
};

/// True if the lane's instructions wait for a disk.
constexpr bool asks_disk(plan::lane l) { return l == plan::lane::writer || l == plan::lane::io; }

/// Makes the executor of any lane of a rank but the fabric lane.
std::unique_ptr<executor> make_modelled_executor(std::shared_ptr<modelled_world> world);
/// Makes the executor of a fabric lane: posts collectives with the identities that production uses to any
/// communicators, but without memory, except for the numbers of the vote.
std::unique_ptr<executor> make_modelled_fabric_executor(std::shared_ptr<modelled_world> world,
                                                        memberships communicators);

}  // namespace troupe::actors
