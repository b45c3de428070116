// Defines the functions of the host (the program that embeds Troupe) that a run calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "actors/opening/opening_progress.hpp"
#include "actors/processes/slow_link_report.hpp"
#include "actors/run/reports.hpp"
#include "actors/saving/save_request.hpp"

namespace troupe::data {
struct reading_progress;
}

namespace troupe::actors {

/// Largest number of warnings that wait for the next call of the session; further ones are counted and dropped.
inline constexpr size_t warnings_max = 64;

/// Learning rates that a host program's schedule chooses for a step: a factor of each group's own rate in the
/// configuration, or a rate for each optimizer group, in the order of session::groups.
using rate_choice = std::variant<double, std::vector<double>>;

/// Functions of the host program that a session calls. Each is called on the thread that is in a call of
/// the session, before that call returns; any may be empty. A callback may call `stop` and `record` and no other
/// function of the session. An exception from a callback, except for `learning_rate`, propagates out of that call,
/// whose work is done and counted; the session remains usable.
struct session_hooks {
  std::function<void(const std::string&)> on_warning;  ///< receives each warning of the session, one line per call
  /// Receives lines of text that the keys comms_logger.verbose, wall_clock_breakdown, memory_breakdown and
  /// flops_profiler request, and a line for each layer if the host program's own modules are split over tensor
  /// ranks. Lines of a step arrive during the next call.
  std::function<void(const std::string&)> on_log{};
  /// Called after each successful step, except steps with a loss spike.
  std::function<void(const step_report&)> on_step{};
  /// called instead of on_step after a step whose loss spike made the run go back
  std::function<void(const loss_spike&)> on_spike{};
  /// Receives, before `on_step`, the start and end of each instruction of the step on every rank. The shared pointer
  /// also keeps the ranks' plans in memory.
  std::function<void(uint64_t step, std::shared_ptr<const std::vector<telemetry::rank_spans>>)> on_spans{};
  /// Receives the loss of the first validation set in nats per token, measured after `step` steps.
  std::function<void(uint64_t step, double loss)> on_evaluation{};
  /// Called while `open` encodes text, about once per MiB of text. Returns false to end the opening with
  /// error_kind::stopped.
  std::function<bool(const data::reading_progress&)> on_reading{};
  /// Called while `open` works, several times a second and at the begin of every phase. Returns false to end the
  /// opening with error_kind::stopped.
  opening_hook on_opening{};
  /// Called before a step whose plan was changed by passes over the plan.
  std::function<void(const passes_report&)> on_passes{};
  /// Called in the leading process of several when the run has gone on with other processes or degrees (in a new term),
  /// after a loss, a join or a requested change, and is back at the step at which it was interrupted. Never called in a
  /// job of one process.
  std::function<void(const term_report&)> on_term{};
  /// Called in the leading process of several, before `on_step`, when a link between machines has become slow;
  /// on_warning receives a sentence about it.
  std::function<void(const slow_link_report&)> on_slow_link{};
  /// Called before `on_term` for each step that `on_step` has reported before a loss and that was repeated after it,
  /// with the result of the repetition.
  std::function<void(const step_report&)> on_step_again{};
  /// Called once for each save after it has ended, successfully or not: at the end of a later successful `step`, or
  /// earlier during a call that waits for saves (`save`, `wait_for_saves`) or begins one (`save_async`).
  std::function<void(const save_report&)> on_saved{};
  /// Called in each process of several that does not lead: returns its name for the checkpoint of the states after
  /// `step` steps, which the leading process is saving. `checkpoint.tag_validation` decides what happens if the names
  /// differ. Empty: the process has no name of its own.
  std::function<std::string(uint64_t step)> tag_of{};
  /// The host program's schedule of learning rates, in place of `scheduler`, which must then be absent. Called before
  /// each training step, in the leading process of several, with the number of updates that the schedule has counted,
  /// from 0: a step that was skipped, or that is repeated after a loss of processes, is asked for again. If it throws,
  /// or returns a rate that is negative or not finite, `step` returns an error and has done nothing; it may be called
  /// again. Only for a step that is repeated after a loss of processes such an error ends the run. Empty: the
  /// configuration's schedule.
  std::function<rate_choice(uint64_t updates)> learning_rate{};
};

}  // namespace troupe::actors
