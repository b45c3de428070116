// Defines the reports of a run to the host (the program that embeds Troupe), and the requests that some of them answer.
// Plain values.
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
#include "plan/choose/compiled_step.hpp"
#include "plan/rank_plan.hpp"
#include "telemetry/figures/stage_figures.hpp"
#include "telemetry/figures/trace.hpp"

namespace troupe::plan {
struct pass;
}

namespace troupe::actors {

struct loss_spike {   ///< a step whose loss rose too far, and the step that the run went back to, if it did
  uint64_t step = 0;  ///< number, from 1, of the step whose loss rose too far
  double loss = 0;
  double usual = 0;                ///< median of the losses of the steps before; 0: there were too few
  uint64_t back_to = 0;            ///< number of steps done in the earlier state from which the run continues
  bool from_memory = false;        ///< true: the run went back to a save in memory; false: to a checkpoint
  std::filesystem::path folder{};  ///< folder of the checkpoint that the run went back to
  uint64_t first = 0, last = 0;    ///< first and last step, counted from 1, whose samples are left out from now on
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
  uint64_t tokens = 0;   ///< number of tokens in the step's global batch
  uint64_t counted = 0;  ///< number of these tokens whose loss counts; 0: all
  bool saved = false;    ///< true: a checkpoint was taken in the step, which makes it longer
  bool first_of_plan =
      false;                ///< true: earlier steps of this run, if any, had another plan: other passes, ranks, batches
  bool save_asked = false;  ///< true: `save_now` has arrived (actors/host.hpp), so the caller should save
  telemetry::step_summary lanes;
  /// Set if the loss rose too far and the run went back to an earlier step (`on_spike.action: skip`).
  std::optional<loss_spike> spike;
};

/// One optimizer group: parameters with the same learning rate and weight decay.
struct group_values {
  std::string name;          ///< `parameter_groups[0]: PATTERN`, or `rest`; with Muon and `, matrices` or `, others`
  double learning_rate = 0;  ///< rate of the next step
  double weight_decay = 0;   ///< weight decay of the next step
  uint64_t parameters = 0;   ///< number of elements that the group updates
};

/// The memory of one rank in bytes, by use: the reserved bytes, and the peak that activations really used.
struct rank_memory_report {
  plan::memory_table resident;
  uint64_t activations_peak_bytes = 0;
  uint64_t offloaded_bytes = 0;  ///< part of `resident` that `offload_states` counts as host memory
  plan::tier_options tiers{};    ///< tier (device, host or file) in which each use of memory is
};

/// Passes (transformations of the step plan, docs/passes.md) that apply from a step on.
struct scheduled_passes {
  uint64_t step = 0;                  ///< number of steps that are done before the passes apply
  std::vector<std::string> passes{};  ///< names of Troupe's own passes
  /// Passes of the host program; they must outlive the session.
  std::vector<std::shared_ptr<const plan::pass>> own{};
  bool is_automatic = false;  ///< true: all of Troupe's own passes, each as far as it shortens the step
};

/// A change of the step plan between two steps.
struct passes_report {
  uint64_t steps = 0;  ///< number of steps done before the plan changed
  plan::compiled_step compiled;
};

/// Network traffic of a term (time with the same processes): bytes that have entered each machine, and number of steps,
/// since the first training step of the term ended. Includes the traffic of saves in memory.
struct network_count {
  /// [machine]: bytes that have entered the machine since counting began; empty if ranks are on one machine
  std::map<uint32_t, uint64_t> entered_bytes;
  uint64_t steps = 0;
  /// [machine]: bytes that the machine had received from other machines when counting began
  std::map<uint32_t, uint64_t> before_bytes;
};

/// How often a job of several processes has gone on with other processes or degrees (each such time is a term), and the
/// time lost by that.
struct recovery_counts {
  uint64_t terms = 0;                       ///< number of changes of processes or degrees (terms after the first)
  std::vector<job::degree_change> degrees;  ///< number of data ranks after each change, and its step
  uint64_t steps_again = 0;                 ///< number of steps that were done more than once
  /// Seconds from the begin of the interrupted work, or of a requested change, until the run was back at its step,
  /// summed over all changes.
  double lost_s = 0;
  std::string cause;      ///< why processes or degrees last changed, as the supervisor reports
  network_count network;  ///< bytes received by machines since processes last changed
};

/// Report that the run has gone on with other processes or degrees (in a new term), after a loss, a join or a requested
/// change.
struct term_report {
  uint64_t number = 0;
  uint32_t data = 0;         ///< number of data ranks that the run goes on with
  uint64_t step = 0;         ///< number of steps done when the run went on with these ranks
  uint64_t steps_again = 0;  ///< number of steps that were done more than once
  double lost_s = 0;         ///< seconds from the begin of the interrupted work until the run was back at its step
  std::string cause;
};

/// The current activity of a rank: the work of each of its lanes, or the reason why it waits.
struct rank_diagnosis {
  uint32_t rank = 0;
  /// Activity of the rank: "working", "asking" (waiting for a disk or the loader), "waiting" (for lanes or ranks), or
  /// "between runs".
  std::string doing;
  /// During a run: the current instruction of each lane, or its reason to wait with the ranks that are missing. Between
  /// runs: what the rank's process waits for, or what others wait for from it; else empty.
  std::string lanes;
};

/// Values that the host program may add to the records at the end of a run.
struct session_ending {
  std::optional<core::error> failure;  ///< error that ended the run; none: the session's own error, if there is one
  std::optional<double> seconds;       ///< duration of the run; none: the sum of its steps
  std::string configuration;           ///< text of the effective configuration (YAML), shown in the report
  std::string sample;                  ///< text that the model generated, shown in the report
};

/// The records of a run, as known once its files are written.
struct session_records {
  /// Path of the written report; empty if no report was requested or it could not be written.
  std::string report_file;
  std::string communication_table;  ///< table of collectives; empty if the section comms_logger is off
  uint64_t num_dropped = 0;         ///< number of records that were dropped because writers were too slow
  bool curves_complete = true;      ///< true: the curve files contain every value that was not dropped
  /// Figures of pipeline stages; has no steps if the model is not cut into stages.
  telemetry::pipeline_figures pipeline;
};

/// The model's output, before the loss, for one micro-batch of the ranks with one data coordinate, rounded to fp32: for
/// a model of Troupe the logits [row, position, token], for a host program's model the output of its last unit.
struct evaluated_output {
  uint64_t batch = 0;  ///< global micro-batch of the evaluation, from 0
  uint32_t rank = 0;   ///< data coordinate of the ranks that computed the output
  std::span<const int64_t> shape;
  std::span<const float> values;
};

/// The batches of an evaluation, and the results that are requested in addition to the loss.
struct evaluation_request {
  uint64_t batches = 0;  ///< largest number of global micro-batches to evaluate; 0: all
  /// Name of the validation set (session::validation_sets); empty: the first one.
  std::string set{};
  /// Called on the caller's thread for each micro-batch in order, and for each data rank in order. The spans in its
  /// argument are valid only during the call. Empty: outputs are not stored.
  std::function<void(const evaluated_output&)> on_output{};
  /// Largest number of bytes of outputs that wait for `on_output`; a run of the evaluation plan computes fewer
  /// micro-batches if their outputs would exceed it. One global micro-batch is always stored.
  uint64_t output_bytes = uint64_t{256} << 20;
  /// Name of the output that `on_output` receives, if the last unit of a host program's model has several. Empty:
  /// the only one.
  std::string output{};
  /// False: computes outputs only, for batches without targets; nothing is recorded, and the report has no losses.
  bool compute_loss = true;
  /// True: computes with the averages of the weights (section ema); false: with the weights; nullopt: as ema.evaluate
  /// says.
  std::optional<bool> averaged{};
  /// Called before each run of micro-batches, in the leading process of several; returning false ends the evaluation
  /// early. Empty: the evaluation always runs to its end.
  std::function<bool()> go_on{};
};

struct evaluation_report {  ///< the mean loss of an evaluation, and what it was computed from
  double loss = 0;          ///< mean loss over all evaluated tokens, in nats
  /// [global micro-batch]: mean loss over its tokens, NaN if the model has to find none of them; empty if not
  /// requested.
  std::vector<double> losses;
  /// True: `go_on` has ended the evaluation early; the evaluation then has no mean loss and is not recorded.
  bool ended_early = false;
};

}  // namespace troupe::actors
