// The embedding API: a training run as a value. Build it from a configuration, step it, ask it, let it go.
// The command line uses nothing else. Not thread-safe: one caller at a time; `stop` may come from anywhere. Several
// sessions may live in a process, each with a caller of its own. A host's own actor system: actors/host.hpp.
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
#include "telemetry/stage_figures.hpp"
#include "telemetry/trace.hpp"

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
  uint64_t step = 0;  ///< from 1
  double loss = 0;    ///< mean over the global batch, nats per token
  double lr = 0;
  double grad_norm = 0;  ///< of the mean gradient, before clipping
  double loss_scale = 1;
  bool skipped = false;  ///< the gradient overflowed
  double seconds = 0;
  uint64_t tokens = 0;      ///< of the global batch
  bool save_asked = false;  ///< somebody sent the supervisor `save_now` (actors/host.hpp): a save is due
  telemetry::step_summary lanes;
  /// The loss has risen too far, and the run is back at an earlier step (`on_spike.action: skip`).
  std::optional<loss_spike> spike;
};

/// Bytes of one rank by owner: what is mapped, and what the model's arithmetic really took at its peak.
struct rank_memory_report {
  plan::memory_table resident;
  uint64_t activations_peak_bytes = 0;
  uint64_t offloaded_bytes = 0;  ///< of `resident`, those that `offload_states` counts as host memory
  plan::tier_options tiers{};    ///< where the owners' bytes lie (plan/memory_places.hpp)
};

/// Passes over the step plan, from a step on (docs/passes.md).
struct scheduled_passes {
  uint64_t step = 0;                                     ///< so many are done before
  std::vector<std::string> passes{};                     ///< of ours, by name
  std::vector<std::shared_ptr<const plan::pass>> own{};  ///< of the program; alive as long as the session
  bool is_automatic = false;                             ///< all of ours, each as far as it helps
  /// After so many steps the plan from before comes back if its steps took less. 0: this one stays.
  /// Three steps have to be measured before it, and three of it (skipped ones are not): else it waits for them.
  uint64_t tried_steps = 0;
};

/// A change of the step plan between two steps.
struct passes_report {
  /// Why steps run by an earlier plan again.
  struct slower {
    double earlier_step_s = 0;  ///< measured: the least of the earlier plan's steps
    double step_s = 0;          ///< of those that were tried
  };
  uint64_t steps = 0;     ///< done before it
  bool measured = false;  ///< times were of this run, not of the cost model
  plan::compiled_step compiled;
  std::optional<slower> went_back{};
};

/// Callbacks to the session's host. Each is called by the thread that is in a call of the session, before that call
/// returns; any may be empty. They may call `stop`, nothing else of the session. An exception of theirs leaves through
/// that call, whose work is done and counted; the session can still be used.
struct session_hooks {
  std::function<void(const std::string&)> on_warning;  ///< one line each
  /// Lines that keys of the configuration ask for: comms_logger.verbose, wall_clock_breakdown, memory_breakdown,
  /// flops_profiler, and where a host's modules are cut over tensor ranks a line for each layer. A step's come with the
  /// next call.
  std::function<void(const std::string&)> on_log{};
  std::function<void(const step_report&)> on_step{};  ///< after each step that ended well, but for spikes
  std::function<void(const loss_spike&)> on_spike{};  ///< instead: the run has gone back
  /// Before `on_step`: when the instructions of that step ran, on every rank. Whoever keeps them keeps their plans.
  std::function<void(uint64_t step, std::shared_ptr<const std::vector<telemetry::rank_spans>>)> on_spans{};
  std::function<void(uint64_t step, double loss)> on_evaluation{};  ///< nats per token after `step` steps
  /// While `open` encodes text, about once for each MiB (data/documents.hpp); false ends the opening with
  /// error_kind::stopped.
  std::function<bool(const data::reading_progress&)> on_reading{};
  /// While `open` works, several times a second, at every phase; false ends the opening with error_kind::stopped.
  opening_hook on_opening{};
  /// Before a step whose plan passes have changed, or by measured times would not change.
  std::function<void(const passes_report&)> on_passes{};
  /// The ranks' votes on the steps that were measured, before they are joined: what a host knows of a rank (it was
  /// suspended, it shared its cores) it may say in its `failure`. Then all ranks stay with the plan that they have.
  std::function<void(std::vector<plan::rank_vote>&)> on_votes{};
  /// A term after the first has begun, and the run is where it was. Called in the leading process of several.
  std::function<void(const term_report&)> on_term{};
  /// A link between hosts has become slow; on_warning has its sentence. Before the step's `on_step`, in the leading
  /// process of several.
  std::function<void(const slow_link_report&)> on_slow_link{};
  /// Before `on_term`: a step that `on_step` has told before and that was done again, with what came of it this time.
  std::function<void(const step_report&)> on_step_again{};
  /// After a save has ended, well or not: during the next call, at the latest that which waits for it.
  std::function<void(const save_report&)> on_saved{};
  /// Called in each serving process of several: its name for the checkpoint of the states after `step` steps, which the
  /// leading one saves now. `checkpoint.tag_validation` decides about other names than the leader's. Empty: it has no
  /// name of its own.
  std::function<std::string(uint64_t step)> tag_of{};
};

/// Values that a host may add to the end of a run; the rest is known.
struct session_ending {
  std::optional<core::error> failure;  ///< none: the session's own, if there is one
  std::optional<double> seconds;       ///< none: those of the steps
  std::string configuration;           ///< effective YAML for the report
  std::string sample;                  ///< text that the model wrote, for the report
};

/// The records of a run, once its files are written.
struct session_records {
  std::string report_file;               ///< empty where none was wanted or it could not be written
  std::string communication_table;       ///< comms_logger's, empty where that is off
  uint64_t num_dropped = 0;              ///< steps and validations that were not recorded: the writers fell behind
  bool curves_complete = true;           ///< every other value is in its file
  telemetry::pipeline_figures pipeline;  ///< without steps where the model is not cut
};

/// Steps between two printed lines: `steps_per_print`, or a fortieth of the run.
uint64_t print_interval(const config::job_config& config);

/// Warnings kept until the next call of the session; more are counted, not kept.
inline constexpr size_t warnings_max = 64;

/// The model's output for one micro-batch of one data rank, before the loss: of a family of ours the logits [row,
/// position, token], of a host's model what its last unit puts out. Rounded to fp32.
struct evaluated_output {
  uint64_t batch = 0;  ///< global micro-batch of the evaluation, from 0
  uint32_t rank = 0;   ///< data coordinate
  std::span<const int64_t> shape;
  std::span<const float> values;
};

/// The batches of an evaluation, and the results that are wanted in addition to the loss.
struct evaluation_request {
  uint64_t batches = 0;  ///< global micro-batches at most; 0: all
  /// Called batch after batch, in each in the order of data ranks, on the caller's thread; what it is given is gone
  /// when it returns. Empty: outputs are not kept.
  std::function<void(const evaluated_output&)> on_output{};
  /// Outputs that wait for `on_output` at once: fewer micro-batches of a pipeline are in flight where more of them
  /// would take more than this. One global micro-batch is always kept.
  uint64_t output_bytes = uint64_t{256} << 20;
  /// The value that `on_output` is given, by its name, where a host's last unit puts out several. Empty: the only one.
  std::string output{};
  /// False: outputs alone, of batches that need no target; nothing is recorded, and the report has no losses.
  bool compute_loss = true;
};

struct evaluation_report {     ///< what an evaluation found
  double loss = 0;             ///< mean over all tokens, in nats; 0 without any
  std::vector<double> losses;  ///< [global micro-batch] means over its tokens; empty where none was asked for
};

/// Degrees that a configuration left open (`parallel: auto`), chosen for a run.
struct run_degrees {
  std::shared_ptr<const config::job_config> config;  ///< with them
  config::degree_choice taken;
  std::string reason;  ///< one line
  std::string table;   ///< every way: step, memory, or why it cannot run
  /// For `job::degrees_file_name` in the run's folder, so that the next run there chooses the same; empty where nothing
  /// was measured anew.
  std::string file;
  std::shared_ptr<const read_texts> texts{};  ///< for session_options; null where no step was run
};

/// A checkpoint to resume from, and how much of it is taken over.
struct resume_choice {
  std::filesystem::path path{};  ///< empty: from the beginning
  load_options load{};
};

struct session_options {  ///< what a session is opened with
  std::shared_ptr<const config::job_config> config;
  session_hooks hooks{};
  /// The host's own, alive for longer than the session, with Troupe's message types (`add_message_types` of
  /// actors/host.hpp). Null: the session makes one.
  caf::actor_system* system = nullptr;
  /// The checkpoint to resume from, in any format that checkpoint/convert/open_source.hpp knows, or a folder of
  /// checkpoints, whose `latest` says which. Any stage, precision and number of ranks may have written it. Where it
  /// does not say everything that a run is, a warning names what was assumed. Empty: from the beginning.
  std::filesystem::path resume{};
  /// The host's own modules and batches instead of `model` and `data` (actors/session/host_model.hpp). Null: the
  /// configuration's.
  std::shared_ptr<const host_model> model{};
  load_options load{};                        ///< how much of `resume` is taken over
  std::shared_ptr<const read_texts> texts{};  ///< of run_degrees: the data that choosing them has read already
  /// The link to the supervisor of a job of several processes, each of which opens such a session and has some of its
  /// ranks (docs/cluster.md). Null: all ranks live here.
  std::shared_ptr<cluster::process> process{};
  /// Instead of `resume` and `load`, of several processes: asked in the one that leads, where a term cannot begin with
  /// a save in memory. `again`: steps of this run have been done.
  std::function<core::result<resume_choice>(bool again)> choose_resume{};
  /// The job as its file has it, for several processes whose `config` has another data degree: every degree cuts the
  /// batch of the file's job. Null: `config`.
  std::shared_ptr<const config::job_config> file{};
};

class session {  ///< a training run
 public:
  /// Reads the data, writes and proves the plans, takes the memory, draws or loads the weights, starts the actors.
  /// Nothing runs yet. Errors: bad_input for what the configuration or files got wrong, limit (also where memory or
  /// threads would not do), io, stopped.
  static core::result<std::unique_ptr<session>> open(session_options options);
  /// Chooses degrees that the configuration leaves open: by the steps that the run's folder has of this job; else the
  /// ways that the cost model finds fastest run a few steps each, from first weights, in sessions that leave nothing
  /// behind. `pipeline.profile: never` runs none. `open` does all this where nobody has. Errors: as `open`; bad_input
  /// where no way can run, with the least budget that one could.
  static core::result<run_degrees> choose_degrees(const session_options& options);
  /// Opens a session with an actor system of its own.
  static core::result<std::unique_ptr<session>> open(std::shared_ptr<const config::job_config> config,
                                                     session_hooks hooks = {});
  /// Ends the actors, waits for the instructions in hand and gives everything back, whatever state the run is in. On
  /// any thread, as every call: none of them ties a session to the threads that used it.
  ~session();
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  /// Makes the files that curves are written to; the first step does so where nobody has. Errors (io, no_space,
  /// bad_input): nothing has run, and the call may be repeated.
  core::result<void> open_records();
  /// The run is over: ends the writers and writes what is written at the end, into an output folder that exists.
  /// The session's end does the same where nobody has. Afterwards nothing is recorded any more.
  session_records finish(session_ending ending = {});

  /// One optimizer step. Where its loss has risen too far the run goes back to the last saved state, as `on_spike`
  /// says, and continues from there with the next call. After an error the session is over: every later call returns
  /// the same error. Where a file of the run's text could not be read any more the states are as the step before left
  /// them, and `save` still works.
  core::result<step_report> step();

  /// Continues the job at other degrees from the next step on (also another ZeRO stage, or other tiers), in this
  /// process: plans, memory and actors are made anew, states are taken over as from a checkpoint, the data continue at
  /// their sample. So steps have the bits of a run that was saved here and resumed with `next`, whose batch, seed and
  /// model are this run's. Needs room for both while it works. Between steps only. Errors (the run continues as it
  /// was): bad_input for what is no such job, or does not go together with a change of degrees; limit; those of `open`.
  core::result<void> change_degrees(std::shared_ptr<const config::job_config> next);

  /// Other passes over the plan of training from now on, in place of the configuration's; steps ascend, and of those
  /// that are done the last one counts. Each change is proved before its step. Errors (the schedule stays as it was):
  /// unknown or contradictory passes, plans that the checker refuses with the passes as they would be now, a budget
  /// that nothing fits; of several processes also passes of the program's own, which the others do not have. If that
  /// shows later, that step fails and the states can be saved.
  core::result<void> compile(std::vector<scheduled_passes> schedule);

  /// Mean loss over the validation part, in nats per token; at most `batches` global micro-batches (0: all). Every
  /// window counts once: the last global micro-batch may have fewer of them, and some ranks none.
  core::result<double> evaluate(uint64_t batches = 0);
  /// Evaluates and returns the loss of each micro-batch too and, on request, the model's outputs. The numbers equal
  /// those of an uncut run of the same data degree, whatever the cut into stages; several micro-batches of a pipeline
  /// are in flight.
  /// If one of several processes is lost meanwhile, outputs come once more from the first batch on.
  core::result<evaluation_report> evaluate(const evaluation_request& request);

  /// Continues `prompt` by `tokens` tokens, drawn at `temperature` (0: the likeliest) from the run's seed. Errors:
  /// bad_input also for a temperature that is negative or no number.
  core::result<std::vector<int64_t>> generate(std::vector<int64_t> prompt, uint64_t tokens, double temperature);

  /// The run's tokenizer (data/tokenizers/tokenizer.hpp), the session's as long as it lives; null where the tokens are
  /// those of a file that no tokenizer here knows.
  [[nodiscard]] data::tokenizer* tokenizer() const;
  /// True where every token is one byte of text: losses are nats per byte.
  [[nodiscard]] bool tokens_are_bytes() const;
  /// A sentence for people on each source that was read; none for a host's own batches.
  [[nodiscard]] std::vector<std::string> read_sources() const;

  /// True if this process leads, so that its host calls the steps; one process always does. If it does not, `serve`
  /// executes the requests of the leading one, until this one leads (after the loss of that one). Errors: the run is
  /// over; stopped,
  [[nodiscard]] bool leads() const;
  core::result<void> serve();
  /// Where processes were lost since the last call: the run recovers now and not with its next call, for a host that
  /// waits between steps. Else, and of one process, it does nothing. Errors: the run is over.
  core::result<void> recover();
  /// True if `recover` has something to do.
  [[nodiscard]] bool has_losses() const;
  /// The terms so far, of the process that leads.
  [[nodiscard]] const recovery_counts& recoveries() const;

  /// The current instruction of each rank and its reason to wait, the rank that blocks the others first. Callable from
  /// any thread, returns at once, also while ranks hang; other processes' ranks are shown with at most 0.5 s of delay.
  [[nodiscard]] std::vector<rank_diagnosis> diagnose() const;

  /// Ends the run in hand as soon as the lanes notice. From any thread.
  void stop(const std::string& why);

  /// Typed handles for monitoring and messages (actors/host.hpp). Drop them before the actor system ends.
  [[nodiscard]] session_actors actors() const;

  /// Writes a checkpoint (docs/formats.md) of the states as they are and returns its folder once it is committed and
  /// synced: a crash at any instant leaves this one or the one before. Between steps only. Errors: io, no_space; the
  /// run may continue. A save that is under way is waited for first.
  core::result<std::filesystem::path> save(const save_request& request);
  /// Saves during training: the next step copies the states before it changes them, writers do the rest while steps
  /// continue, and `on_saved` tells how it ended. Errors: as `save` for what is known at once; `limit` while another
  /// save is under way.
  core::result<void> save_async(const save_request& request);
  /// True if `save` is possible: until the run is over, and after an error that has left the states whole.
  [[nodiscard]] bool may_save() const;
  /// True if a save was begun and `on_saved` has not been called for it.
  [[nodiscard]] bool save_under_way() const;
  /// Returns when no save is under way any more; without a next step the copies are taken here. Errors: the save's.
  core::result<void> wait_for_saves();
  /// Takes a checkpoint over while the session lives, between steps: any format, one of a folder by `options.tag`, with
  /// the effects of `session_options::resume`, so that steps from here on have the bits of a session that is opened
  /// there. Only parameters that options leave out keep what they are. Curves that are open end at the step that it
  /// goes back to, whosever the checkpoint is; where steps begin at 0 they become NAME.previous. A save that was asked
  /// for is of the states before and is finished first. Errors: as `open`; bad_input while states are offloaded.
  /// Where it is refused before anything changed, the run may continue; a later failure (io, a digest) ends the run.
  core::result<loaded_checkpoint> load(const std::filesystem::path& path, load_options options = {});
  /// The client state that the resumed run gave to `save`; null's text otherwise.
  [[nodiscard]] const std::string& client_state() const;

  [[nodiscard]] uint64_t steps_done() const;
  /// Samples that the run leaves out, as it was decided: by `data.skip`, after spikes, and in checkpoints before.
  [[nodiscard]] const std::vector<core::left_out_steps>& left_out() const;
  [[nodiscard]] uint64_t validation_tokens() const;
  [[nodiscard]] uint64_t sequence() const;  ///< tokens of a sample
  [[nodiscard]] const core::model_table& table() const;
  [[nodiscard]] const plan::rank_plan& training_plan(uint32_t rank) const;
  [[nodiscard]] std::vector<rank_memory_report> memory() const;
  /// The table that `pipeline.schedule: search` has found, and beside it what was asked (docs/formats.md): in the run's
  /// folder they are the order of the next run too. Empty where nothing was searched.
  [[nodiscard]] std::string found_schedule() const;
  [[nodiscard]] std::string found_schedule_note() const;
  /// The text of `run_degrees::file`, if opening this session has chosen degrees; else empty.
  [[nodiscard]] std::string found_degrees() const;
  /// A line for each change by passes over a host's units; empty without any.
  [[nodiscard]] std::string changed_units() const;
  /// The plan's choice of tiers for swapped states, as YAML to paste; empty where none are swapped.
  [[nodiscard]] std::string chosen_tiers() const;

  /// Master weights of a parameter from element `first` on, as fp32 (rounded in reference mode), wherever they lie.
  /// Between steps only. Errors, here and below: bad_input for a parameter, a moment or elements that there are not; io
  /// with file and offset, where states are in files.
  core::result<void> read_parameter(uint32_t parameter, uint64_t first, std::span<float> out) const;
  /// First (0) or second (1) moment of a whole parameter, likewise; zeros where its optimizer keeps none.
  core::result<void> read_moment(uint32_t parameter, int which, std::span<float> out) const;
  /// The reduced gradient of the last step, times the factor that makes it the mean over the global batch, in fp64.
  core::result<void> read_gradient(uint32_t parameter, std::span<double> out) const;

  /// Weights, optimizer states and gradients by name, to read and to change (actors/session/state_access.hpp). Between
  /// steps only; good until the session's next call.
  [[nodiscard]] state_access states();

  /// Takes states out of memory between steps, values as they are: nothing but `reload_states`, `memory` and what
  /// asks for numbers alone works meanwhile, everything else is refused. Without an accelerator, `cpu` moves bytes
  /// between two columns of `memory` and frees none. Errors: bad_input, also where states are offloaded already; those
  /// of storage::swap_space; then all is where it was.
  core::result<offload_report> offload_states(offload_request request = {});
  /// Brings everything back, bit by bit and to the same addresses. Errors: bad_input where nothing was offloaded; io,
  /// then nothing is lost and the call may be repeated.
  core::result<void> reload_states();

  /// Writes config.json and model.safetensors (sharded beyond `max_shard_bytes`) for Hugging Face. Between steps only.
  core::result<void> export_hugging_face(const std::string& folder, uint64_t max_shard_bytes = uint64_t{5} << 30) const;

  /// The weights in the type in which the forward pass uses them, under Hugging Face's names: `*.safetensors`, `*.bin`
  /// and `*.pt` are files, anything else is a folder, for pytorch_model.bin. In torch's files a tied head is one more
  /// name. At stage 3 only where zero_optimization.stage3_gather_16bit_weights_on_model_save is set; else a warning,
  /// and false. Between steps only. Errors: io, no_space; what was there stays.
  core::result<bool> save_16bit_model(const std::filesystem::path& path, bool exclude_frozen_parameters = false) const;

 private:
  struct parts;
  struct trials;
  explicit session(std::unique_ptr<parts> p);
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::actors
