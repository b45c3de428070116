// Reports of a run to its host, and the requests that they answer. Plain values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "job/degree_changes.hpp"
#include "plan/choose/compile.hpp"
#include "plan/passes/pass.hpp"
#include "plan/rank_plan.hpp"
#include "telemetry/figures/stage_figures.hpp"
#include "telemetry/figures/trace.hpp"

namespace troupe::actors {

struct loss_spike {   ///< a step whose loss rose too far, and the step that the run went back to, if it did
  uint64_t step = 0;  ///< number, from 1, of the step whose loss rose too far
  double loss = 0;
  double usual = 0;                ///< median of the losses of the steps before this one; 0: too few to compare with
  uint64_t back_to = 0;            ///< number of steps done in the earlier state from which the run continues
  bool from_memory = false;        ///< true: the run went back to a save in memory; false: to a checkpoint
  std::filesystem::path folder{};  ///< folder of the checkpoint that the run went back to
  uint64_t first = 0, last = 0;    ///< first and last step whose samples are left out from now on
  uint64_t samples = 0;            ///< number of samples that are left out
  uint64_t times = 0;              ///< number of times that this run has gone back, this one included
};

/// The report of one optimizer step.
struct step_report {
  uint64_t step = 0;  ///< number of the step, counted from 1
  double loss = 0;    ///< mean loss over the global batch, in nats per token
  double lr = 0;
  double grad_norm = 0;  ///< norm of the mean gradient, before clipping
  double loss_scale = 1;
  bool skipped = false;  ///< true: the gradient overflowed, and nothing was updated
  double seconds = 0;
  uint64_t tokens = 0;      ///< number of tokens in the step's global batch
  bool save_asked = false;  ///< the supervisor has received `save_now` (actors/host.hpp): a save is due
  telemetry::step_summary lanes;
  /// Set if the loss rose too far and the run went back to an earlier step (`on_spike.action: skip`).
  std::optional<loss_spike> spike;
};

/// The memory of one rank in bytes, by owner: the reserved bytes, and the peak that computation really used.
struct rank_memory_report {
  plan::memory_table resident;
  uint64_t activations_peak_bytes = 0;
  uint64_t offloaded_bytes = 0;  ///< part of `resident` that `offload_states` counts as host memory
  plan::tier_options tiers{};    ///< tier of each owner's bytes (plan/memory_places.hpp)
};

/// Passes over the step plan that apply from a step on (docs/passes.md).
struct scheduled_passes {
  uint64_t step = 0;                  ///< number of steps that are done before the passes apply
  std::vector<std::string> passes{};  ///< names of Troupe's own passes
  /// Passes of the embedding program; they must outlive the session.
  std::vector<std::shared_ptr<const plan::pass>> own{};
  bool is_automatic = false;  ///< true: all of Troupe's own passes, each as far as it helps
  /// Number of steps of a trial, after which the run returns to the earlier plan if that plan's steps were faster. 0:
  /// no trial, the passes remain in effect. A trial begins once three steps before it have been measured, and ends once
  /// three of its own steps have been measured (skipped steps do not count).
  uint64_t tried_steps = 0;
};

/// A change of the step plan between two steps.
struct passes_report {
  /// The reason why training has returned to an earlier plan: the times of both plans.
  struct slower {
    double earlier_step_s = 0;  ///< shortest measured step of the earlier plan, in seconds
    double step_s = 0;          ///< shortest measured step of the plan on trial, in seconds
  };
  uint64_t steps = 0;     ///< number of steps done before the plan changed
  bool measured = false;  ///< true: the times were measured in this run; false: the cost model computed them
  plan::compiled_step compiled;
  std::optional<slower> went_back{};
};

/// Network traffic of a term: bytes that entered each machine since the first training step of the term had ended, and
/// the steps since then. Includes the traffic of saves in memory.
struct network_count {
  /// [machine]: bytes since counting began; empty if the term has one machine
  std::map<uint32_t, uint64_t> entered_bytes;
  uint64_t steps = 0;
  /// [machine]: bytes that the machine had received from other machines when counting began
  std::map<uint32_t, uint64_t> before_bytes;
};

/// Numbers of the terms of a job of several processes, and the time lost between these terms.
struct recovery_counts {
  uint64_t terms = 0;                       ///< number of terms of the job after its first
  std::vector<job::degree_change> degrees;  ///< number of data ranks of each term, and the step from which it applies
  uint64_t steps_again = 0;                 ///< number of steps that were done more than once
  /// Seconds from the detection of a loss until the run was back at its step, summed over losses.
  double lost_s = 0;
  std::string cause;      ///< cause of the newest term, as the supervisor reports it
  network_count network;  ///< bytes that machines have received in the current term
};

/// Report of a term that has begun, after the first.
struct term_report {
  uint64_t number = 0;
  uint32_t data = 0;         ///< number of data ranks of the term
  uint64_t step = 0;         ///< number of steps done when the term began
  uint64_t steps_again = 0;  ///< number of steps that were done more than once
  double lost_s = 0;         ///< seconds since the begin of the work that the loss interrupted
  std::string cause;
};

/// The current activity of a rank: the work of each of its lanes, or the reason why it waits.
struct rank_diagnosis {
  uint32_t rank = 0;
  /// State of the rank: "working", "asking" (a disk or the loader), "waiting" (for lanes or ranks), "between runs".
  std::string doing;
  /// The current instruction of each lane or its reason to wait, with the missing partners; between runs the wait of
  /// the rank's process or the message that others wait for from it, else empty.
  std::string lanes;
};

/// Values that a host may add to the records at the end of a run.
struct session_ending {
  std::optional<core::error> failure;  ///< error that ended the run; none: the session's own error, if there is one
  std::optional<double> seconds;       ///< duration of the run; none: the sum of its steps
  std::string configuration;           ///< effective YAML, for the report
  std::string sample;                  ///< text that the model generated, for the report
};

/// The records of a run, once its files are written.
struct session_records {
  /// Path of the written report; empty if no report was requested or it could not be written.
  std::string report_file;
  std::string communication_table;  ///< table of collectives by comms_logger; empty if comms_logger is off
  uint64_t num_dropped = 0;         ///< steps and validations that were not recorded because the writers fell behind
  bool curves_complete = true;      ///< true: the curve files contain every value that was not dropped
  /// Figures of pipeline stages; has no steps if the model is not cut into stages.
  telemetry::pipeline_figures pipeline;
};

/// The model's output for one micro-batch of one data rank, before the loss, rounded to fp32: logits [row, position,
/// token] of a family of Troupe, the last unit's output of a host's model.
struct evaluated_output {
  uint64_t batch = 0;  ///< global micro-batch of the evaluation, from 0
  uint32_t rank = 0;   ///< data coordinate of the rank that computed the output
  std::span<const int64_t> shape;
  std::span<const float> values;
};

/// The batches of an evaluation, and the results that are requested in addition to the loss.
struct evaluation_request {
  uint64_t batches = 0;  ///< most global micro-batches to evaluate; 0: all
  /// Called on the caller's thread for each batch in order, within a batch in the order of data ranks. The spans are
  /// valid only during the call. Empty: outputs are not stored.
  std::function<void(const evaluated_output&)> on_output{};
  /// Most bytes of outputs that wait for `on_output`: if more in flight would exceed this, fewer micro-batches of a
  /// pipeline are in flight. One global micro-batch is always stored.
  uint64_t output_bytes = uint64_t{256} << 20;
  /// Name of the output that `on_output` receives, if a host's last unit has several. Empty: the only one.
  std::string output{};
  /// False: computes outputs only, for batches without targets; nothing is recorded, and the report has no losses.
  bool compute_loss = true;
  /// Called before each run of micro-batches, in the leading process of several; false leaves the evaluation. Empty: it
  /// is always complete.
  std::function<bool()> go_on{};
};

struct evaluation_report {     ///< the mean loss of an evaluation, and what it was computed from
  double loss = 0;             ///< mean loss over all evaluated tokens, in nats; 0 without tokens
  std::vector<double> losses;  ///< [global micro-batch]: mean loss over its tokens; empty if not requested
  /// True: `go_on` has left the evaluation, which has no mean loss and is not recorded.
  bool ended_early = false;
};

}  // namespace troupe::actors
