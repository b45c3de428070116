// The contents of a session and the functions on them, which the sources of this folder implement; each source is named
// below. No other folder includes this file.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/memory/whole_states.hpp"
#include "actors/processes/shared_output.hpp"
#include "actors/session/contents.hpp"
#include "actors/session/opening.hpp"
#include "actors/session/session.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/clock.hpp"
#include "job/early_updates.hpp"
#include "models/cuda/use.hpp"

namespace troupe::actors {

struct session::parts {
  job::blueprint plan;
  std::unique_ptr<models::cuda_use> on_gpu;  ///< the process's use of CUDA; null on the CPU
  std::string found_degrees;
  /// [rank]: plans of each rank; null until a rank's plans are first needed
  std::vector<std::shared_ptr<rank_programs>> programs;
  host_modules modules;
  host_messages host;
  session_processes processes;
  session_memory memory;
  snip_scores snip;
  session_data data;
  /// The record of the teacher for checkpoints; none: there is no teacher.
  std::optional<checkpoint::teacher_record> teacher;
  session_recording recording;
  // Must follow the members that the actors point to: it is destroyed first and ends the actors.
  session_company actors;
  training_progress progress;
  order_counts counts;
  unfinished_saves saving;
  saved_places places;
  pass_schedule passes;
  job::undone_steps undone;  ///< counts undone updates, if the run itself decides whether updates precede the vote
  bool change_of_updates = false;  ///< true: the order of updates and vote changes before the next step
  run_over over;

  /// Returns the most bytes of activations that a rank has had.
  [[nodiscard]] uint64_t peak_bytes(uint32_t rank) const;
  /// Returns the states by elements of whole parameters.
  [[nodiscard]] whole_states whole() const { return {memory.ranks, plan.tensor}; }

  // open.cpp
  core::result<void> make_own_system();
  core::result<void> take_memory(first_weights weights, opening_watch& watch);
  /// Returns the swap folder of this process.
  [[nodiscard]] std::filesystem::path swap_folder() const;
  /// Starts the actors; reuses the telemetry actor of the previous term, if there was one.
  core::result<void> start_actors();

  // session.cpp: running
  void use_programs(plan::plan_choice which, plan::rank_plans plans);
  /// Writes the plans of this kind, unless they exist already.
  core::result<void> want(plan::plan_choice which);
  [[nodiscard]] const std::shared_ptr<const program>& program_of(plan::plan_choice which, uint32_t rank) const {
    return (*programs[rank])[static_cast<size_t>(which)];
  }
  /// Returns the order to the ranks for a run of this plan.
  [[nodiscard]] std::shared_ptr<step_order> order_for(plan::plan_choice which, uint64_t step, const run_wish& wish);
  /// Runs the plan on the ranks of this process.
  core::result<run_outcome> run_here(plan::plan_choice which, const std::shared_ptr<step_order>& order);
  /// Runs one training step, books and records it; does not notify the host.
  core::result<step_report> train_once();
  void book(const run_outcome& did);
  /// Runs a plan once. Warnings are stored: the caller passes them to the host after it has booked the result of the
  /// run.
  core::result<run_outcome> run(plan::plan_choice which, uint64_t step, const run_wish& wish = {});
  /// Runs a plan once, as run() does, and passes warnings to the host at once.
  core::result<run_outcome> run_and_tell(plan::plan_choice which, uint64_t step, const run_wish& wish = {});

  // evaluate.cpp, state.cpp: one attempt each, by the current ranks
  core::result<evaluation_report> evaluate(const evaluation_request& request, uint64_t n);
  core::result<std::vector<int64_t>> generate(std::vector<int64_t> text, uint64_t tokens, double temperature);

  // compile.cpp
  /// Sets the configuration's schedule of passes, from the step that the run begins with.
  void schedule_passes();
  /// Called in the leading process when a term begins: takes over the passes of the previous term, or schedules the
  /// configuration's.
  void schedule_passes_again();
  /// Changes the plans of training if the schedule of passes requires it. Call before each step.
  core::result<void> change_passes();
  /// Makes the plans that apply after the updates so far: which modules are compressed changes with them. Call before
  /// any run.
  core::result<void> enter_phase();
  /// Ends a trial of passes: returns to the plan from before the trial, if that one was faster.
  core::result<void> end_trial();
  /// Makes `changed` the steps of training, from the next step on.
  core::result<void> take_steps(job::changed_steps changed, passes_report report);
  /// Moves updates before the vote, or after it again, depending on how many of the last steps were undone. Call before
  /// a step.
  core::result<void> change_updates();
  /// True if training updates before the vote.
  [[nodiscard]] bool updates_early() const;
  /// Moves training's updates before the vote (`early`) or after it, from the next step on; without effect unless the
  /// run decides that order itself.
  core::result<void> use_updates(bool early);
  /// Makes the memory and the programs of the ranks those of `changed`.
  core::result<void> use_steps(job::changed_steps& changed);
  /// Resets the peaks of memory if the next step is measured. Call before a step.
  void begin_measuring();
  /// Stores the measurements of a step that another schedule of passes may need, while the steps before that schedule
  /// run. Call after a step.
  void measure(std::span<const telemetry::rank_spans> step);
  /// Returns all ranks' votes on the measured steps, joined. Reports a rank without a profile to the host.
  plan::joined_votes vote();

  // offload.cpp: whether states may be used or changed now
  /// Returns an error while the run is over or states are offloaded.
  [[nodiscard]] core::result<void> sound() const;
  /// Checks `sound` and lets a requested save take its copies. Call before states change other than by a step.
  core::result<void> let_go_of_states();

  // spike.cpp
  /// Goes back to a saved state, or ends the run. Call after a step whose loss has risen too far.
  core::result<loss_spike> answer_spike(const step_report& report);
  /// Goes back to the newest save in memory by beginning another term. `why`: the cause of that term.
  core::result<void> go_back_in_memory(std::vector<core::left_out_steps> left_out, const std::string& why);
  void add_older_places(saved_places& to, uint64_t newest) const;
  /// Goes back to the checkpoint `to`. Returns false if that checkpoint cannot be taken; the run is then unchanged.
  core::result<bool> go_back_on_disk(const saved_places::place& to, std::vector<core::left_out_steps> left_out);
  /// Returns the decisions on left-out samples for a run that has taken `first_sample` samples in `first_step` steps;
  /// the decisions in `recorded` stay.
  core::result<std::vector<core::left_out_steps>> decide_left_out(std::vector<core::left_out_steps> recorded,
                                                                  uint64_t first_step, uint64_t first_sample) const;
  /// Decides which samples a run that begins at step 0 leaves out.
  core::result<void> leave_out_from_the_start();
  /// Returns a line for each decision on left-out samples, for people.
  [[nodiscard]] std::vector<std::string> left_out_lines() const;
  /// Applies these decisions on left-out samples from now on; the caller notifies the loader.
  void leave_out(std::vector<core::left_out_steps> decided);

  // data.cpp
  /// Sets how the plan's ranks cut the data, from the first sample of the plan on.
  void set_batch_shape();
  core::result<void> read_data(opening_watch& watch, const std::shared_ptr<const read_texts>& texts);
  [[nodiscard]] std::vector<config::data_source> sources() const;
  core::result<std::shared_ptr<const data::token_stream>> open_source(const config::data_source& source,
                                                                      opening_watch& watch) const;
  core::result<void> make_corpus(std::vector<std::shared_ptr<const data::token_stream>> streams);
  core::result<uint64_t> num_evaluations(uint64_t wanted) const;
  /// Returns the record of the data for checkpoints, measured once; none for a host's own batches, or if the data
  /// cannot be read any more.
  const std::optional<checkpoint::data_record>& data_record();

  // resume.cpp
  /// Reads the record of the teacher for checkpoints, if there is a teacher; reads it once, at the first call.
  core::result<void> look_at_teacher();
  /// Loads the layers of `model.teacher` that the model begins with, if it begins with any.
  core::result<void> take_layers(opening_watch& watch);
  /// Takes a checkpoint over and returns its folder. After an error before any change the run is unchanged; after a
  /// later error the run is over.
  core::result<std::filesystem::path> resume(const std::filesystem::path& from, load_options options, resume_time when,
                                             opening_watch& watch, const load_agreement& agreed = {});
  /// Takes over a checkpoint that is open, as resume() does.
  core::result<void> take_over(const checkpoint::tensor_source& from, load_options options, resume_time when,
                               opening_watch& watch, const load_agreement& agreed = {});
  /// Executes session::load once.
  core::result<loaded_checkpoint> load(const std::filesystem::path& path, const load_options& options);
  core::result<void> tell_loader();

  // pruning.cpp
  [[nodiscard]] core::result<std::vector<float>> whole_weight(uint32_t parameter) const;
  /// Makes the masks from `saved`, and masks that `saved` lacks from the current weights.
  core::result<void> make_masks(const std::vector<checkpoint::mask_record>& saved);
  [[nodiscard]] std::vector<checkpoint::mask_record> saved_masks() const;
  /// begin_saliency and end_saliency surround a step with snip_momentum: they add |w g| to the scores, of the weights
  /// before the step and its gradients.
  core::result<void> begin_saliency();
  core::result<void> end_saliency();
  /// Makes the masks in effect those of the updates so far. Call before any run.
  void turn_masks();
  /// Called in the leading process, which alone makes masks: sends them to the other processes.
  void tell_masks() const;

  // model_file.cpp
  /// Executes session::save_16bit_model once.
  [[nodiscard]] core::result<bool> write_16bit_model(const std::filesystem::path& path,
                                                     bool exclude_frozen_parameters) const;

  // checkpoint.cpp
  core::result<void> begin_save(const save_request& request);
  core::result<std::shared_ptr<save_job>> make_save(checkpoint::file_system& files, const save_request& request);
  /// Returns all ranks' plans that save; from then on the ranks here have staging memory.
  core::result<std::vector<std::shared_ptr<const plan::rank_plan>>> saving_plans();
  [[nodiscard]] ranks_here ranks_of_process() const;
  core::result<void> save_without_lanes(const save_request& request);
  core::result<void> end_saves();
  /// Reports the result of the save that is being written to the host, once. Returns the save's error.
  std::optional<core::error> collect_save(unfinished_save what);

  // telemetry.cpp
  telemetry_setup make_telemetry();
  core::result<void> open_records();
  void record(const step_report& r, std::shared_ptr<const std::vector<telemetry::rank_spans>> spans);
  void record_loss(double loss);
  /// Removes the records of later steps. Call when the run is back at an earlier step.
  void go_back_in_records();
  session_records finish(session_ending ending);
  [[nodiscard]] std::vector<telemetry::memory_row> memory_rows() const;
  void log_memory(const std::string& when);

  // term.cpp
  /// Begins a term of the same job at other degrees, from the next step on. After an error the run is unchanged.
  core::result<void> begin_term(std::shared_ptr<const config::job_config> next);
  core::result<void> make_term(const term& before, const std::vector<checkpoint::mask_record>& masks);
  term give_term();
  void take_term(term t);

  // shared_texts.cpp: the texts of a term of several processes
  core::result<void> take_texts(opening_watch& watch);
  core::result<void> give_texts() const;

  // processes.cpp: the terms of a job of several processes
  core::result<void> join_processes(const session_options& options, opening_watch& watch);
  /// Stores the states in memory and requests a term with `data` data ranks that continues with them (0: as many as
  /// possible). Call between two steps.
  core::result<void> end_term_for(uint32_t data, const std::string& cause = {});
  core::result<void> change_processes(const config::job_config& next);
  /// Takes part in terms until one has begun in which this process has ranks. Errors: the run is over.
  core::result<void> enter_term(opening_watch& watch);
  core::result<void> make_processes_term(const cluster::term_order& order, opening_watch& watch);
  /// Sets the counts of earlier terms. Called in a process that leads and did not lead before.
  void count_terms_before(const cluster::run_so_far& before, int64_t begin_ns);
  core::result<void> serve_until_masks();
  core::result<void> take_states(const cluster::term_order& order, const opening_call& opening, opening_watch& watch);
  /// Gives up the ranks because of `why`, or because the term has ended. Errors: the run is over.
  core::result<void> leave_term(const core::error& why);
  /// Leaves the term because of `why` and enters the next one.
  core::result<void> recover(const core::error& why);
  /// Recovers to the state after `steps` steps. `begin_ns`: the begin of the interrupted work.
  core::result<void> recover_to(uint64_t steps, const core::error& why, int64_t begin_ns);
  /// Marks the run as over if the term has ended. Call after a failure: a save or a read that waits for another
  /// process's bytes fails without an error of any rank.
  void note_loss();
  /// Runs `deed`, which needs the ranks of all processes. If some are lost meanwhile, recovers and runs it again with
  /// the remaining ones.
  template <class Deed>
  auto outlasting(Deed deed) -> decltype(deed()) {
    for (const uint64_t steps = progress.steps;;) {
      const int64_t begin_ns = core::now_ns();
      auto did = deed();
      if (!did) note_loss();
      if (did || !processes.is_on() || !over.why) return did;
      TROUPE_TRY(recover_to(steps, did.error(), begin_ns));
    }
  }

  // served.cpp: calls between the leading process and the others
  core::result<run_outcome> run_everywhere(plan::plan_choice which, const std::shared_ptr<step_order>& order);
  core::result<void> add_reports(uint64_t number, run_outcome& to);
  /// Reports to the host which links between machines have become slow. Call after a training step.
  void name_slow_links(const std::vector<link_traffic>& links);
  core::result<void> obey(const cluster::call& c);
  core::result<void> obey(uint64_t number, const run_call& c);
  core::result<void> obey(uint64_t number, const read_call& c);
  core::result<void> obey(uint64_t number, const write_call& c);
  [[nodiscard]] states_elsewhere states_of(uint32_t rank) const;

  // together.cpp: actions of all processes between two steps
  core::result<void> obey(uint64_t number, const load_call& c);
  core::result<void> obey(uint64_t number, const offload_call& c);
  /// Called in the leading process: returns the other processes' results of a call, in the order of their ranks.
  /// Errors: the term has ended, and with it the run as it was.
  core::result<std::vector<deed_answer>> deeds(uint64_t number);
  core::result<std::filesystem::path> load_together(const std::filesystem::path& path, const load_options& options);
  core::result<offload_report> offload_here(offload_request request);
  core::result<offload_report> offload_together(const offload_request& request);
  core::result<void> reload_here();
  core::result<void> reload_together();
  /// Asks all processes for their names of the checkpoint that is being saved (`checkpoint.tag_validation`).
  core::result<void> check_tags(const std::string& mine);

  core::result<std::shared_ptr<save_job>> join_save(checkpoint::file_system& files, uint64_t run,
                                                    const save_invitation& invitation, const save_request& request);

  // node_local.cpp: checkpoints on the disks of machines
  /// Checks a folder that all machines must share: each machine must see the file that the leading process has put
  /// there, while `sign` lives, and must be able to write there. Errors: bad_input.
  core::result<void> look_at_output(std::optional<output_sign>& sign);
  /// True if this job's checkpoints are on the disks of its machines.
  [[nodiscard]] bool has_disks_of_machines() const;
  [[nodiscard]] std::unique_ptr<node_local_files> files_of_machines() const;
  /// Returns the invitation with the folder in which this process writes and syncs its part of a save on its disk.
  core::result<save_invitation> place_of_part(const save_invitation& invitation) const;
  /// Called in the leading process after a save: tells the other machines to keep their parts.
  void tell_machines(const save_job& save, const save_report& report);
  core::result<void> obey(const committed_call& c);

  // kept.cpp: saves in memory
  /// Begins to copy the current states to memory while the next step runs, if a save in memory is due. Call before a
  /// training step.
  core::result<void> keep_states();
  /// Saves the current states in memory now, and waits.
  core::result<void> keep_states_now();
  core::result<void> begin_keeping();
  /// Waits for the save in memory that ran during a step. Call before the program that embeds the session is notified
  /// of that step: a process that is lost later then costs no more than this step. Errors: a process was lost before
  /// the save was complete.
  core::result<void> end_keeping();

  // host.cpp
  void deliver_warnings();
  void end_actors();
};

}  // namespace troupe::actors
