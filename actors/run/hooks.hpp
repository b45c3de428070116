// Callbacks of a run to its host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/opening/opening_progress.hpp"
#include "actors/processes/slow_link_report.hpp"
#include "actors/run/reports.hpp"
#include "actors/saving/save_request.hpp"
#include "plan/choose/profile_votes.hpp"

namespace troupe::data {
struct reading_progress;
}

namespace troupe::actors {

/// Warnings kept until the next call of the session; further warnings are counted, not kept.
inline constexpr size_t warnings_max = 64;

/// Callbacks to the session's host. Each runs on the thread that is in a call of the session, before that call returns;
/// any may be empty. A callback may call `stop` and no other function of the session. An exception from a callback
/// propagates out of that call, whose work is done and counted; the session remains usable.
struct session_hooks {
  std::function<void(const std::string&)> on_warning;  ///< receives each warning of the session, one line per call
  /// Receives lines that keys of the configuration request: comms_logger.verbose, wall_clock_breakdown,
  /// memory_breakdown, flops_profiler, and a line for each layer if a host's modules are cut over tensor ranks. Lines
  /// of a step arrive during the next call.
  std::function<void(const std::string&)> on_log{};
  /// Called after each successful step, except steps with a loss spike.
  std::function<void(const step_report&)> on_step{};
  /// called instead of on_step after a step whose loss spike made the run go back
  std::function<void(const loss_spike&)> on_spike{};
  /// Called before `on_step`: start and end of the step's instructions on every rank. A holder of the spans also holds
  /// their plans.
  std::function<void(uint64_t step, std::shared_ptr<const std::vector<telemetry::rank_spans>>)> on_spans{};
  /// Receives the validation loss in nats per token, measured after `step` steps.
  std::function<void(uint64_t step, double loss)> on_evaluation{};
  /// Called while `open` encodes text, about once per MiB (data/documents.hpp). Returns false to end the opening with
  /// error_kind::stopped.
  std::function<bool(const data::reading_progress&)> on_reading{};
  /// Called while `open` works, several times a second and at every phase. Returns false to end the opening with
  /// error_kind::stopped.
  opening_hook on_opening{};
  /// Called before a step whose plan was changed by passes, or was not changed because of measured times.
  std::function<void(const passes_report&)> on_passes{};
  /// Receives the ranks' votes on the measured steps, before they are joined. A host that knows of a disturbance of a
  /// rank (it was suspended, it shared its cores) may set the vote's `failure`; all ranks then keep their current plan.
  std::function<void(std::vector<plan::rank_vote>&)> on_votes{};
  /// Called in the leading process when a term after the first has begun and the run has recovered to the step at which
  /// the loss interrupted it. Never called in a job of one process.
  std::function<void(const term_report&)> on_term{};
  /// Called when a link between machines has become slow; on_warning receives the sentence. Called before the step's
  /// `on_step`, in the leading process of several.
  std::function<void(const slow_link_report&)> on_slow_link{};
  /// Called before `on_term` for a step that `on_step` has already reported and that was repeated, with the result of
  /// the repetition.
  std::function<void(const step_report&)> on_step_again{};
  /// Called once for each save after it has ended, successfully or not: at the end of a later successful `step`, or
  /// earlier during a call that waits for saves (`save`, `wait_for_saves`) or begins one (`save_async`).
  std::function<void(const save_report&)> on_saved{};
  /// Called in each serving process of several: returns its name for the checkpoint of the states after `step` steps,
  /// which the leading process is saving. `checkpoint.tag_validation` decides what happens if the name differs from the
  /// leading process's. Empty: the process has no name of its own.
  std::function<std::string(uint64_t step)> tag_of{};
};

}  // namespace troupe::actors
