// The embedding API: a training run as an object that a program which embeds Troupe (the host) opens from a
// configuration, steps, queries and destroys. Troupe's command line uses the same API. Not thread-safe: one caller at a
// time; stop() may be called from any thread. Several sessions may exist in a process, each with its own caller. For a
// host's own actor system see actors/host.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/loading/load_options.hpp"
#include "actors/memory/offload_request.hpp"
#include "actors/run/hooks.hpp"
#include "actors/run/options.hpp"
#include "actors/run/reports.hpp"
#include "actors/saving/save_request.hpp"
#include "actors/session/own_loop.hpp"
#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::data {
class tokenizer;
}

namespace troupe::actors {

struct session_actors;
struct training_run;
class state_access;

class session {  ///< one training run, from its opening to its end
 public:
  /// Opens a session: reads the data, writes and proves the plans, reserves the memory, draws or loads the weights,
  /// starts the actors. Runs no step. Errors: bad_input for faults in the configuration or files, limit (also if memory
  /// or threads would not suffice), io, stopped.
  static core::result<std::unique_ptr<session>> open(session_options options);
  /// Chooses the parallel degrees that the configuration leaves open: those whose step is predicted to be the shortest
  /// (job/degrees.hpp), by session_options::kept_costs. Runs nothing and writes nothing. open() calls this if degrees
  /// are open. Errors: stopped; bad_input if no combination can run, with the least memory budget that would permit
  /// one.
  static core::result<run_degrees> choose_degrees(const session_options& options);
  /// Opens a session that makes an actor system of its own.
  static core::result<std::unique_ptr<session>> open(std::shared_ptr<const config::job_config> config,
                                                     session_hooks hooks = {});
  /// Ends the actors, waits for the current instructions and releases everything, in any state of the run. Callable on
  /// any thread, as is every function: a session is not tied to the threads that used it.
  ~session();
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  /// Creates the curve files; if this is not called, the first step does it. Errors (io, no_space, bad_input): nothing
  /// has run, and the call may be repeated.
  core::result<void> open_records();
  /// Ends the run's records: stops the writers, and writes the final files if the output folder exists. If this is not
  /// called, the destructor does it. Later steps are not recorded.
  session_records finish(session_ending ending = {});

  /// Records a value under a name of the host program's own, in the same curves as the run's values (CSV, TensorBoard,
  /// JSON lines, the report), with the label `Own/Samples/NAME`, at the steps done so far. For the same name and step
  /// the last value counts. Values are written with the next step, or by finish(); those that are not finite are
  /// written as `nan` or `inf`, in JSON as null. Hooks may call this function. Errors: bad_input for a name that is not
  /// 1 to 64 letters, digits, `_`, `-` and `.`, in a process that does not lead, and after finish(); limit for the
  /// 129th name.
  core::result<void> record(std::string_view name, double value);

  /// Runs one optimizer step: on the forward passes for which backward() was called since the last step, or, if there
  /// are none, on the run's own data. The step then has as many micro-batches as these passes, at most
  /// gradient_accumulation_steps, and exactly as many unless `managed_gradient_accumulation` is false; its gradient is
  /// the sum of the noted gradients, without a further division, and its loss the sum of weight x loss over their
  /// tokens, whose weights are the negative gradients. The samples count as samples of the run, and all forward passes
  /// end with the step; after an error before it began (bad_input, limit) they are still there. If its loss has risen
  /// too far, the run returns to the last saved state, as `on_spike` says, and continues from there with the next call.
  /// After an error the session has ended: every later call returns the same error; only an error of
  /// session_hooks::learning_rate leaves the session as it was. If a text of the run can no longer
  /// be read, the states stay those after the previous step, and save() still works.
  core::result<step_report> step();

  /// Returns the optimizer groups of the run, with the learning rates and weight decays of the next step; with
  /// session_hooks::learning_rate, the rates of the last step. The first group has the parameters that no entry of
  /// `parameter_groups` names.
  [[nodiscard]] std::vector<group_values> groups() const;
  /// Sets the learning rate of a group, by its place in groups(), from the next step on, in all processes of the job.
  /// Without a schedule the rate stays until the next call; with one it holds for one update, since the schedule sets
  /// the next, as in PyTorch and DeepSpeed. A rate that is still to act is in checkpoints, and a run that resumes with
  /// the optimizer's states continues with it. Call between steps only, in the leading process. Errors (bad_input): no
  /// such group, a rate that is negative or not finite, a session with session_hooks::learning_rate.
  core::result<void> set_learning_rate(uint32_t group, double rate);
  /// Sets the weight decay of a group as set_learning_rate() does; it stays until the next call, also with a schedule.
  core::result<void> set_weight_decay(uint32_t group, double weight_decay);

  /// Computes the logarithms of the probabilities of the tokens of `batch`, and its mean loss, with the weights of the
  /// open step and without dropout, and keeps the batch for backward(). Rows may be any number: the last micro-batch is
  /// filled up with rows that count nothing. The batch is not the run's data: nothing is recorded, and the run's
  /// position stays. Errors: bad_input for a batch of another shape (wanted, got), a token outside of the vocabulary,
  /// no token that counts, and for runs that cannot train on such batches: a host's own modules, encoders, teachers,
  /// GPUs, `on_spike`, `data.skip`; limit for too many passes.
  core::result<forward_pass> forward(const token_batch& batch);
  /// Adds `factor` times the gradient of the mean loss of forward pass `number` to the gradient of the next step().
  /// Nothing is computed before that step. Several backwards of one pass, and of several passes, add up. Errors:
  /// bad_input for an unknown number and a factor that is not finite.
  core::result<void> backward(uint64_t number, double factor = 1.0);
  /// Adds the gradient of a loss of the host program to the gradient of the next step(): `gradients` has the derivative
  /// of that loss by each logarithm of a probability that the pass has returned. Errors, in addition: bad_input for
  /// another number of gradients, one that is not finite (which), a job whose training step computes other
  /// probabilities than forward(): one with dropout, label smoothing or z-loss.
  core::result<void> backward(uint64_t number, std::span<const float> gradients);
  /// Drops the forward passes and backwards of the open step, so that step() trains on the run's own data.
  void forget();

  /// Continues the job with other parallel degrees from the next step on (also another ZeRO stage, or other tiers of
  /// memory), in this process: makes new plans, memory and actors, reads the states as from a checkpoint, and continues
  /// the data at the current sample. Later steps have the bits of a run that was saved here and resumed with `next`,
  /// whose batch, seed and model must be this run's. The call needs the memory of the old and the new degrees together.
  /// Call between steps only. Errors (the run continues unchanged): bad_input if `next` is another job or uses features
  /// that cannot be combined with a change of degrees; limit; those of open().
  core::result<void> change_degrees(std::shared_ptr<const config::job_config> next);

  /// Replaces the configuration's schedule of passes, which transform the plan of training steps, from now on. Steps in
  /// `schedule` must ascend; of the entries whose step is already done the last one applies. Each change is proved
  /// before its step. Errors (the schedule stays unchanged): unknown or contradictory passes, plans that the checker
  /// refuses if the passes were applied now, a memory budget that no plan meets; in a job of several processes also
  /// passes of the host program, which the other processes lack. If such an error appears only later, that step
  /// fails, and the states can be saved.
  core::result<void> compile(std::vector<scheduled_passes> schedule);

  /// Returns the mean loss over the first validation set, in nats per token, of at most `batches` global micro-batches
  /// (0: all). Every window counts once: the last global micro-batch may have fewer windows, and some ranks none.
  /// Errors: bad_input if the model has to find no token of these windows (data.masking), so that there is no mean.
  core::result<double> evaluate(uint64_t batches = 0);
  /// Evaluates as `request` says, and also returns the loss of each micro-batch and, on request, the model's outputs.
  /// The numbers do not depend on how the model is cut into pipeline stages; several micro-batches of a pipeline are
  /// computed at the same time. If one of several processes is lost meanwhile, outputs are passed to the caller again
  /// from the first batch on.
  core::result<evaluation_report> evaluate(const evaluation_request& request);

  /// Returns the loss of the current weights on the first micro-batch of the next step, by one forward pass. Trains and
  /// records nothing; if the loss is finite, it proves the save of these weights (save_request::keep_last). Errors:
  /// those of `evaluate`; bad_input for a host's own model; a text that cannot be read.
  core::result<double> next_loss();

  /// Returns `prompt` followed by `tokens` tokens that the model generates, drawn by the run's seed at `temperature`
  /// (0: always the likeliest token); the text ends earlier after the first generated token that is in `ends`. Errors:
  /// bad_input also for a temperature that is negative or not a number.
  core::result<std::vector<int64_t>> generate(std::vector<int64_t> prompt, uint64_t tokens, double temperature,
                                              const std::vector<int64_t>& ends = {});

  /// Returns the run's tokenizer (data/tokenizers/tokenizer.hpp), which the session owns; null if the tokens come from
  /// a file whose tokenizer is unknown.
  [[nodiscard]] data::tokenizer* tokenizer() const;
  /// True if every token is one byte of text: losses are nats per byte.
  [[nodiscard]] bool tokens_are_bytes() const;
  /// Returns a line of text for each source that was read, with its files, tokens and documents; none for an embedding
  /// program's own batches.
  [[nodiscard]] std::vector<std::string> read_sources() const;
  /// Returns the text of the first conversation, prompt or list of labelled tokens that the run trains on, in parts;
  /// the flag of a part is true if its tokens count. Empty if the sources are texts.
  [[nodiscard]] std::vector<std::pair<std::string, bool>> first_sample() const;

  /// True if this process leads the job, so that its host program calls the steps; exactly one process leads.
  [[nodiscard]] bool leads() const;
  /// Executes the requests of the leading process, and returns once this process leads because the leading one was
  /// lost. Errors: the run has ended; stopped.
  core::result<void> serve();
  /// Recovers from a loss of processes now, instead of during the next call; for a program that waits between steps.
  /// Does nothing if no process was lost since the last call, or if the job has one process. Errors: the run has ended.
  core::result<void> recover();
  /// True if processes were lost since the last call of recover(), so that recover() must be called.
  [[nodiscard]] bool has_losses() const;
  /// Returns how often the job has gone on with other processes or degrees (terms), and what losses of processes cost,
  /// as the leading process counts it.
  [[nodiscard]] const recovery_counts& recoveries() const;

  /// Returns the current instruction of each rank and its reason to wait; the rank that blocks the others comes first.
  /// Callable from any thread, returns at once, also while ranks hang; other processes' ranks are shown with at most
  /// 0.5 s of delay.
  [[nodiscard]] std::vector<rank_diagnosis> diagnose() const;

  /// Stops the run: the plan that is running ends as soon as its lanes notice, and every later step fails with an error
  /// that contains `why`. Thread-safe.
  void stop(const std::string& why);

  /// Returns typed handles of the session's actors, for monitoring and messages (actors/host.hpp). Release them before
  /// the actor system ends.
  [[nodiscard]] session_actors actors() const;

  /// Writes a checkpoint (docs/formats.md) of the current states and returns its folder once it is committed and
  /// synced: after a crash at any instant either this or the previous checkpoint is complete. Waits first for a save
  /// that is in progress. A checkpoint of the same name is replaced at once; older ones that `keep_last` does not keep
  /// are removed when the next step, an evaluation or next_loss() has had a finite loss. Call between steps only.
  /// Errors: io, no_space; the run may continue.
  core::result<std::filesystem::path> save(const save_request& request);
  /// Saves during training: the next step copies the states before it changes them, writer threads write them while
  /// steps continue, and `on_saved` receives the result. Errors: those of save() that are known at once; limit while
  /// another save is in progress.
  core::result<void> save_async(const save_request& request);
  /// True if save() is possible: as long as the run has not ended, and after an error that came before any state had
  /// changed.
  [[nodiscard]] bool may_save() const;
  /// True if a save was begun and `on_saved` has not been called for it.
  [[nodiscard]] bool save_under_way() const;
  /// Waits until no save is in progress; if a save waits for a next step, copies the states for it now. Errors: those
  /// of the save.
  core::result<void> wait_for_saves();
  /// Loads a checkpoint into the open session, between steps. The checkpoint may have any format; `options.tag` selects
  /// one of a folder. Has the effects of `session_options::resume`. Later steps have the bits of a session that is
  /// opened with that checkpoint; parameters that the options leave out keep their present values. Open curve files are
  /// cut after the restored step, also for another run's checkpoint; if that is step 0 they are renamed NAME.previous.
  /// A save that was requested before is finished first, with the states from before the load. Errors: those of open();
  /// bad_input while states are offloaded. After an error before any change the run may continue; a later failure (io,
  /// a digest) ends the run.
  core::result<loaded_checkpoint> load(const std::filesystem::path& path, load_options options = {});
  /// Returns the text (client state) that the program passed to save() in the checkpoint that this run has resumed;
  /// else the text null.
  [[nodiscard]] const std::string& client_state() const;
  /// Returns the configuration that the resumed run recorded in its checkpoint; empty if there is none.
  [[nodiscard]] const std::string& configuration_before() const;

  [[nodiscard]] uint64_t steps_done() const;
  /// Returns the decisions on samples that the run leaves out: those of `data.skip`, those after spikes of the loss,
  /// and those in checkpoints from which the run has continued.
  [[nodiscard]] const std::vector<core::left_out_steps>& left_out() const;
  [[nodiscard]] uint64_t validation_tokens() const;
  /// Returns the names of the validation sets: an empty name for the held-out part of the sources, if there is one, and
  /// then those of `data.validation`. Evaluations use the first one unless they name another.
  [[nodiscard]] std::vector<std::string> validation_sets() const;
  [[nodiscard]] uint64_t sequence() const;  ///< returns the number of tokens of a sample
  /// Returns the model's family by its model_type, such as llama; empty for a host program's own model.
  [[nodiscard]] std::string model_type() const;
  [[nodiscard]] const core::model_table& table() const;
  [[nodiscard]] const plan::rank_plan& training_plan(uint32_t rank) const;
  [[nodiscard]] std::vector<rank_memory_report> memory() const;
  /// found_schedule() returns the pipeline table (the order of forwards and backwards) that `pipeline.schedule: search`
  /// has found; found_schedule_note() returns the numbers that the search depended on, and its result
  /// (docs/formats.md). If both are stored in the run's folder, the next run with the same numbers uses that order,
  /// too. Empty if no search was made.
  [[nodiscard]] std::string found_schedule() const;
  [[nodiscard]] std::string found_schedule_note() const;
  /// Returns a line of text for each change that passes made to the units of a host program's model; empty if
  /// there is none.
  [[nodiscard]] std::string changed_units() const;
  /// Returns the plan's choice of the memory (tier) of swapped states, as YAML for a configuration file; empty if no
  /// states are swapped.
  [[nodiscard]] std::string chosen_tiers() const;

  /// Reads master weights of a parameter from element `first` on, as fp32 (rounded in reference mode), wherever they
  /// are stored. Call between steps only. Errors, also of read_moment() and read_gradient(): bad_input for a parameter,
  /// a moment or elements that do not exist; io with file and offset, if states are in files.
  core::result<void> read_parameter(uint32_t parameter, uint64_t first, std::span<float> out) const;
  /// Reads the first (`which` 0) or second (1) optimizer moment of a whole parameter as fp32; zeros if its optimizer
  /// has no such moment. Call between steps only.
  core::result<void> read_moment(uint32_t parameter, int which, std::span<float> out) const;
  /// Reads the gradient of the last step for a whole parameter, in fp64: the mean over the global batch.
  core::result<void> read_gradient(uint32_t parameter, std::span<double> out) const;

  /// Returns an object for reading and changing weights, optimizer states and gradients by name
  /// (actors/session/state_access.hpp). Call between steps only; the object is valid until the session's next call.
  [[nodiscard]] state_access states();

  /// Moves states out of memory between steps, with their values unchanged. Until reload_states() is called, only
  /// memory() and functions that return plain numbers work; all others return an error. Without an accelerator, the
  /// destination `cpu` moves bytes between two columns of memory() and frees none. Errors: bad_input, also if states
  /// are offloaded already; those of storage::swap_space; after an error all states are in memory.
  core::result<offload_report> offload_states(offload_request request = {});
  /// Moves all offloaded states back to their former addresses, with the same bits. Errors: bad_input if nothing was
  /// offloaded; io, after which all states still exist and the call may be repeated.
  core::result<void> reload_states();

  /// Writes config.json and model.safetensors for Hugging Face into `folder`; weights of more than `max_shard_bytes`
  /// bytes are split into several files. A model with adapters (section `lora`) is written as a folder of PEFT, with
  /// adapter_config.json and adapter_model.safetensors. Call between steps only.
  core::result<void> export_hugging_face(const std::string& folder, uint64_t max_shard_bytes = uint64_t{5} << 30) const;

  /// Writes the weights in the type in which the forward pass uses them, under Hugging Face's names: a path
  /// `*.safetensors`, `*.bin` or `*.pt` is a file, any other path is a folder for pytorch_model.bin. In files for torch
  /// a tied head has a name of its own. At ZeRO stage 3 the weights are written only if
  /// zero_optimization.stage3_gather_16bit_weights_on_model_save is set; otherwise the call gives a warning and returns
  /// false. Call between steps only. Errors: io, no_space; existing files stay unchanged.
  core::result<bool> save_16bit_model(const std::filesystem::path& path, bool exclude_frozen_parameters = false) const;

 private:
  explicit session(std::unique_ptr<training_run> run);
  std::unique_ptr<training_run> run_;
};

}  // namespace troupe::actors
