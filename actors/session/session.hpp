// The embedding API: a training run as a value that a host opens from a configuration, steps, queries and destroys. The
// command line uses nothing else. Not thread-safe: one caller at a time; `stop` may be called from any thread. Several
// sessions may exist in a process, each with its own caller. For a host's own actor system see actors/host.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/memory/offload_request.hpp"
#include "actors/processes/slow_link_report.hpp"
#include "actors/saving/save_request.hpp"
#include "actors/session/load_options.hpp"
#include "actors/session/loss_spike.hpp"
#include "actors/session/opening_progress.hpp"
#include "actors/session/term_report.hpp"
#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"
#include "plan/choose/compile.hpp"
#include "plan/choose/vote.hpp"
#include "plan/passes/pass.hpp"
#include "plan/rank_plan.hpp"
#include "telemetry/figures/stage_figures.hpp"
#include "telemetry/figures/trace.hpp"

namespace caf {
class actor_system;
}

namespace troupe::cluster {
class process;
}  // namespace troupe::cluster

namespace troupe::data {
class tokenizer;
struct reading_progress;
}  // namespace troupe::data

namespace troupe::actors {

struct session_actors;
struct host_model;
struct read_texts;
class state_access;

/// The report of one optimizer step.
struct step_report {
  uint64_t step = 0;  ///< number of the step, from 1
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

/// Bytes of one rank by owner: the mapped bytes, and the peak that the model's arithmetic really used.
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
  /// Steps of a trial, after which the earlier plan returns if its steps took less. 0: no trial, these passes stay.
  /// Three steps before the trial and three steps of it must have been measured (skipped steps do not count); until
  /// then the change or its end waits.
  uint64_t tried_steps = 0;
};

/// A change of the step plan between two steps.
struct passes_report {
  /// Reason why steps run by an earlier plan again.
  struct slower {
    double earlier_step_s = 0;  ///< shortest measured step of the earlier plan, in seconds
    double step_s = 0;          ///< shortest measured step of the plan on trial, in seconds
  };
  uint64_t steps = 0;     ///< number of steps done before the plan changed
  bool measured = false;  ///< true: the times were measured in this run; false: the cost model computed them
  plan::compiled_step compiled;
  std::optional<slower> went_back{};
};

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
  std::function<void(const loss_spike&)> on_spike{};  ///< called in place of on_step if the run has gone back
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
  /// Called when a term after the first has begun and the run has recovered to where it was. Only in the leading
  /// process of several.
  std::function<void(const term_report&)> on_term{};
  /// Called when a link between hosts has become slow; on_warning receives the sentence. Called before the step's
  /// `on_step`, in the leading process of several.
  std::function<void(const slow_link_report&)> on_slow_link{};
  /// Called before `on_term` for a step that `on_step` has already reported and that was repeated, with the result of
  /// the repetition.
  std::function<void(const step_report&)> on_step_again{};
  /// Called after a save has ended, successfully or not: during the next call, at the latest during the call that waits
  /// for the save.
  std::function<void(const save_report&)> on_saved{};
  /// Called in each serving process of several: returns its name for the checkpoint of the states after `step` steps,
  /// which the leading process is saving. `checkpoint.tag_validation` decides what happens if the name differs from the
  /// leading process's. Empty: the process has no name of its own.
  std::function<std::string(uint64_t step)> tag_of{};
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

/// Returns the number of steps between two printed lines: `steps_per_print`, or a fortieth of the run.
uint64_t print_interval(const config::job_config& config);

/// Warnings kept until the next call of the session; further warnings are counted, not kept.
inline constexpr size_t warnings_max = 64;

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
};

struct evaluation_report {     ///< result of an evaluation
  double loss = 0;             ///< mean loss over all evaluated tokens, in nats; 0 without tokens
  std::vector<double> losses;  ///< [global micro-batch]: mean loss over its tokens; empty if not requested
};

/// Degrees that a configuration left open (`parallel: auto`), as chosen for a run.
struct run_degrees {
  std::shared_ptr<const config::job_config> config;  ///< the configuration with the chosen degrees
  config::degree_choice taken;
  std::string reason;  ///< reason for the chosen degrees, in one line
  std::string table;   ///< table of every candidate for the degrees: step time, memory, or why it cannot run
  /// Content of `job::degrees_file_name` in the run's folder, with which the next run there chooses the same degrees;
  /// empty if nothing was newly measured.
  std::string file;
  /// Texts that choosing the degrees has read, for session_options; null if no step was run.
  std::shared_ptr<const read_texts> texts{};
};

/// A checkpoint to resume from, and the parts of it that are taken over.
struct resume_choice {
  std::filesystem::path path{};  ///< path of the checkpoint to resume from; empty: the run starts from the beginning
  load_options load{};
};

struct session_options {  ///< options of opening a session
  std::shared_ptr<const config::job_config> config;
  session_hooks hooks{};
  /// The host's actor system, which must outlive the session and have Troupe's message types (`add_message_types` of
  /// actors/host.hpp). Null: the session creates its own.
  caf::actor_system* system = nullptr;
  /// The checkpoint to resume from, in any format that checkpoint/convert/open_source.hpp reads, or a folder of
  /// checkpoints, whose `latest` names one. Any stage, precision and number of ranks may have written it. If the
  /// checkpoint lacks parts of a run's state, a warning names what was assumed. Empty: the run starts from the
  /// beginning.
  std::filesystem::path resume{};
  /// The host's own modules and batches, in place of `model` and `data` (actors/session/host_model.hpp). Null: those of
  /// the configuration.
  std::shared_ptr<const host_model> model{};
  load_options load{};                        ///< parts of `resume` that are taken over
  std::shared_ptr<const read_texts> texts{};  ///< texts that choosing the degrees has already read (run_degrees::texts)
  /// The link to the supervisor of a job of several processes, each of which opens such a session and runs some of its
  /// ranks (docs/cluster.md). Null: all ranks run in this process.
  std::shared_ptr<cluster::process> process{};
  /// Returns the checkpoint to resume from, in place of `resume` and `load`, for a job of several processes. Called in
  /// the leading process if a term cannot begin with a save in memory. `again`: steps of this run have been done.
  std::function<core::result<resume_choice>(bool again)> choose_resume{};
  /// The job as its file describes it, for several processes whose `config` has another data degree: every degree
  /// divides the batch of this job. Null: `config`.
  std::shared_ptr<const config::job_config> file{};
};

class session {  ///< one training run
 public:
  /// Opens a session: reads the data, writes and proves the plans, reserves the memory, draws or loads the weights,
  /// starts the actors. Runs no step. Errors: bad_input for faults in the configuration or files, limit (also if memory
  /// or threads would not suffice), io, stopped.
  static core::result<std::unique_ptr<session>> open(session_options options);
  /// Chooses degrees that the configuration leaves open: from measurements of this job in the run's folder; else by
  /// running the candidates that the cost model finds fastest for a few steps each, from first weights, in sessions
  /// that leave nothing behind. `pipeline.profile: never` runs none. `open` calls this if the degrees are still open.
  /// Errors: as `open`; bad_input if no candidate can run, with the least budget with which one could.
  static core::result<run_degrees> choose_degrees(const session_options& options);
  /// Opens a session with an actor system of its own.
  static core::result<std::unique_ptr<session>> open(std::shared_ptr<const config::job_config> config,
                                                     session_hooks hooks = {});
  /// Ends the actors, waits for the current instructions and releases everything, in any state of the run. Callable on
  /// any thread, as is every function: a session is not tied to the threads that used it.
  ~session();
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  /// Creates the files of the curves; the first step does so otherwise. Errors (io, no_space, bad_input): nothing has
  /// run, and the call may be repeated.
  core::result<void> open_records();
  /// Ends the run's records: stops the writers and writes the final files into an output folder that exists. The
  /// destructor does this otherwise. Afterwards nothing is recorded.
  session_records finish(session_ending ending = {});

  /// Runs one optimizer step. If its loss has risen too far, the run goes back to the last saved state, as `on_spike`
  /// says, and continues from there with the next call. After an error the session is over: every later call returns
  /// the same error. If a file of the run's text can no longer be read, the states are those after the previous step,
  /// and `save` still works.
  core::result<step_report> step();

  /// Continues the job at other degrees from the next step on (also another ZeRO stage, or other tiers), in this
  /// process: makes new plans, memory and actors, takes the states over as from a checkpoint, and continues the data at
  /// the current sample. Later steps have the bits of a run that was saved here and resumed with `next`, whose batch,
  /// seed and model must be this run's. Needs memory for both while it works. Between steps only. Errors (the run
  /// continues unchanged): bad_input if `next` is another job or uses features that cannot be combined with a change of
  /// degrees; limit; those of `open`.
  core::result<void> change_degrees(std::shared_ptr<const config::job_config> next);

  /// Replaces the configuration's passes over the plan of training from now on. Steps ascend; of the entries whose step
  /// is already done the last one applies. Each change is proved before its step. Errors (the schedule stays
  /// unchanged): unknown or contradictory passes, plans that the checker refuses if the passes were applied now, a
  /// budget that no plan fits; with several processes also passes of the embedding program, which the other processes
  /// lack. If such an error appears later, that step fails and the states can be saved.
  core::result<void> compile(std::vector<scheduled_passes> schedule);

  /// Returns the mean loss over the validation part, in nats per token, of at most `batches` global micro-batches (0:
  /// all). Every window counts once: the last global micro-batch may have fewer windows, and some ranks none.
  core::result<double> evaluate(uint64_t batches = 0);
  /// Evaluates, and returns also the loss of each micro-batch and, on request, the model's outputs. The numbers equal
  /// those of an uncut run of the same data degree, for any cut into stages; several micro-batches of a pipeline are in
  /// flight. If one of several processes is lost meanwhile, outputs are delivered again from the first batch on.
  core::result<evaluation_report> evaluate(const evaluation_request& request);

  /// Continues `prompt` by `tokens` tokens, drawn at `temperature` (0: the likeliest) from the run's seed. Errors:
  /// bad_input also for a temperature that is negative or not a number.
  core::result<std::vector<int64_t>> generate(std::vector<int64_t> prompt, uint64_t tokens, double temperature);

  /// Returns the run's tokenizer (data/tokenizers/tokenizer.hpp), owned by the session; null if the tokens come from a
  /// file whose tokenizer is not known here.
  [[nodiscard]] data::tokenizer* tokenizer() const;
  /// True if every token is one byte of text: losses are nats per byte.
  [[nodiscard]] bool tokens_are_bytes() const;
  /// Returns a sentence for people on each source that was read; none for a host's own batches.
  [[nodiscard]] std::vector<std::string> read_sources() const;

  /// True if this process leads, so that its host calls the steps; exactly one process leads.
  [[nodiscard]] bool leads() const;
  /// Executes the requests of the leading process. Returns once this process leads, after the loss of the leading one.
  /// Errors: the run is over; stopped.
  core::result<void> serve();
  /// Recovers from a loss of processes now, instead of during the next call; for a host that waits between steps. Does
  /// nothing without a loss since the last call, or if the job has one process. Errors: the run is over.
  core::result<void> recover();
  /// True if `recover` has something to do.
  [[nodiscard]] bool has_losses() const;
  /// Returns the counts of the terms so far, as the leading process has them.
  [[nodiscard]] const recovery_counts& recoveries() const;

  /// Returns the current instruction of each rank and its reason to wait; the rank that blocks the others comes first.
  /// Callable from any thread, returns at once, also while ranks hang; other processes' ranks are shown with at most
  /// 0.5 s of delay.
  [[nodiscard]] std::vector<rank_diagnosis> diagnose() const;

  /// Ends the current run as soon as the lanes notice. Thread-safe.
  void stop(const std::string& why);

  /// Returns typed handles for monitoring and messages (actors/host.hpp). Release them before the actor system ends.
  [[nodiscard]] session_actors actors() const;

  /// Writes a checkpoint (docs/formats.md) of the current states and returns its folder once it is committed and
  /// synced: after a crash at any instant either this or the previous checkpoint is whole. Waits first for a save that
  /// is under way. Between steps only. Errors: io, no_space; the run may continue.
  core::result<std::filesystem::path> save(const save_request& request);
  /// Saves during training: the next step copies the states before it changes them, writers do the rest while steps
  /// continue, and `on_saved` receives the result. Errors: as `save` for errors that are known at once; `limit` while
  /// another save is under way.
  core::result<void> save_async(const save_request& request);
  /// True if `save` is possible: until the run is over, and after an error that left the states whole.
  [[nodiscard]] bool may_save() const;
  /// True if a save was begun and `on_saved` has not been called for it.
  [[nodiscard]] bool save_under_way() const;
  /// Waits until no save is under way; if no step follows, the copies are taken here. Errors: the save's.
  core::result<void> wait_for_saves();
  /// Takes a checkpoint over while the session lives, between steps: any format, one of a folder by `options.tag`, with
  /// the effects of `session_options::resume`. Later steps have the bits of a session that is opened with that
  /// checkpoint; parameters that the options leave out keep their current values. Open curve files end at the restored
  /// step, also for another run's checkpoint; if that is step 0 they are renamed NAME.previous. A save that was
  /// requested before is finished first, with the states from before the load. Errors: as `open`; bad_input while
  /// states are offloaded. After an error before any change the run may continue; a later failure (io, a digest) ends
  /// the run.
  core::result<loaded_checkpoint> load(const std::filesystem::path& path, load_options options = {});
  /// Returns the client state that the resumed run passed to `save`; else the text of null.
  [[nodiscard]] const std::string& client_state() const;

  [[nodiscard]] uint64_t steps_done() const;
  /// Returns the decisions on samples that the run leaves out: by `data.skip`, after spikes, and in checkpoints before.
  [[nodiscard]] const std::vector<core::left_out_steps>& left_out() const;
  [[nodiscard]] uint64_t validation_tokens() const;
  [[nodiscard]] uint64_t sequence() const;  ///< returns the number of tokens of a sample
  [[nodiscard]] const core::model_table& table() const;
  [[nodiscard]] const plan::rank_plan& training_plan(uint32_t rank) const;
  [[nodiscard]] std::vector<rank_memory_report> memory() const;
  /// found_schedule returns the table that `pipeline.schedule: search` has found, and found_schedule_note the request
  /// that it answers (docs/formats.md); stored in the run's folder, they fix the order of the next run too. Empty if
  /// nothing was searched.
  [[nodiscard]] std::string found_schedule() const;
  [[nodiscard]] std::string found_schedule_note() const;
  /// Returns the text of `run_degrees::file`, if opening this session has chosen degrees; else empty.
  [[nodiscard]] std::string found_degrees() const;
  /// Returns a line for each change by passes over a host's units; empty without any.
  [[nodiscard]] std::string changed_units() const;
  /// Returns the plan's choice of tiers for swapped states, as YAML to paste; empty if none are swapped.
  [[nodiscard]] std::string chosen_tiers() const;

  /// Reads master weights of a parameter from element `first` on, as fp32 (rounded in reference mode), from any tier.
  /// Between steps only. Errors, also of read_moment and read_gradient: bad_input for a parameter, a moment or elements
  /// that do not exist; io with file and offset, if states are in files.
  core::result<void> read_parameter(uint32_t parameter, uint64_t first, std::span<float> out) const;
  /// Reads the first (0) or second (1) moment of a whole parameter as fp32, between steps only; zeros if its optimizer
  /// has no such moment.
  core::result<void> read_moment(uint32_t parameter, int which, std::span<float> out) const;
  /// Reads the reduced gradient of the last step in fp64, times the factor that makes it the mean over the global
  /// batch.
  core::result<void> read_gradient(uint32_t parameter, std::span<double> out) const;

  /// Returns access by name to weights, optimizer states and gradients, for reading and changing
  /// (actors/session/state_access.hpp). Between steps only; valid until the session's next call.
  [[nodiscard]] state_access states();

  /// Moves states out of memory between steps, with their values unchanged. Until `reload_states` only `memory` and
  /// functions that return plain numbers work; everything else is refused. Without an accelerator, `cpu` moves bytes
  /// between two columns of `memory` and frees none. Errors: bad_input, also if states are offloaded already; those of
  /// storage::swap_space; after an error all states are where they were.
  core::result<offload_report> offload_states(offload_request request = {});
  /// Moves all offloaded states back, bit by bit and to the same addresses. Errors: bad_input if nothing was offloaded;
  /// io: nothing is lost, and the call may be repeated.
  core::result<void> reload_states();

  /// Writes config.json and model.safetensors (sharded beyond `max_shard_bytes`) for Hugging Face. Between steps only.
  core::result<void> export_hugging_face(const std::string& folder, uint64_t max_shard_bytes = uint64_t{5} << 30) const;

  /// Writes the weights in the type in which the forward pass uses them, under Hugging Face's names: a path
  /// `*.safetensors`, `*.bin` or `*.pt` is a file, any other path is a folder for pytorch_model.bin. In torch's files a
  /// tied head has a name of its own. At stage 3 only if zero_optimization.stage3_gather_16bit_weights_on_model_save is
  /// set; otherwise gives a warning and returns false. Between steps only. Errors: io, no_space; files that existed
  /// before stay.
  core::result<bool> save_16bit_model(const std::filesystem::path& path, bool exclude_frozen_parameters = false) const;

 private:
  struct parts;
  struct trials;
  explicit session(std::unique_ptr<parts> p);
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::actors
