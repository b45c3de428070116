// Defines the faults that a simulation injects, and the entries of its log. Plain values; modelled_executor.hpp
// executes the faults and writes the log.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "plan/instruction.hpp"

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
  /// Nothing passes the links of `communicators` for `delay`; what lasts longer than a stall ends the run. draw_fault()
  /// draws the kinds before this one.
  cut_link,
};
std::string_view name_of(sim_fault_kind kind);  ///< Returns the fault's name as tests and seeds print it.

/// True if the fault ends the run; false if it only delays it.
constexpr bool is_deadly(sim_fault_kind k) { return k >= sim_fault_kind::kill_rank && k != sim_fault_kind::cut_link; }

/// The moment at which a kill, freeze or delay happens, and from which on a lane is slow.
enum class sim_moment : uint8_t {
  events,       ///< `after_events` instructions have started or ended on any rank; a slow lane is slow in all of `run`
  run,          ///< `run` has been ordered
  time,         ///< the virtual clock shows `at_ns`, counted from the order of the first run
  instruction,  ///< the instruction at `position` has started; of a slow lane, this instruction alone is slow
};

/// Value of sim_fault::run: a fault that belongs to no particular run. It happens in the first run that has its moment;
/// a slow lane is slow in every run.
inline constexpr uint64_t any_run = 0;

/// One injected fault: its kind, the rank, lane and instruction, and its moment. `position` is that of the instruction
/// in the lane's order.
struct sim_fault {
  sim_fault_kind kind = sim_fault_kind::none;
  uint64_t run = 1;  ///< number of the run in which the fault happens, from 1, as step_order counts runs; or any_run
  uint32_t rank = 0;
  plan::lane lane = plan::lane::compute;
  uint32_t position = 0;
  uint64_t after_events = 0;
  double factor = 1;
  /// Time for which something stops or is late. An instruction that is slow alone takes `delay` more beside `factor`.
  std::chrono::nanoseconds delay{0};
  sim_moment moment = sim_moment::events;
  int64_t at_ns = 0;
  bool with_lanes = false;                        ///< freeze_rank: true if the lanes of the rank freeze, too
  core::error_kind error = core::error_kind::io;  ///< executor_error: kind of the error
  std::string text = {};                          ///< executor_error: text of the error; empty: a usual one
  std::vector<uint32_t> communicators = {};       ///< cut_link: communicators over the link
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

}  // namespace troupe::actors
