// A session's contents and what is done with them, for the sources of this folder that implement it, each named here;
// nobody else includes it.
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
  std::unique_ptr<models::cuda_use> on_gpu;  ///< null on the CPU
  std::string found_degrees;
  std::vector<std::shared_ptr<rank_programs>> programs;  ///< [rank]; an entry of a rank is null until it is wanted
  host_modules modules;
  host_messages host;
  session_processes processes;
  session_memory memory;
  snip_scores snip;
  session_data data;
  std::optional<checkpoint::teacher_record> teacher;  ///< what checkpoints record of it; none: there is none
  session_recording recording;
  session_company actors;  // behind what the actors point to: they end first
  training_progress progress;
  order_counts counts;
  unfinished_saves saving;
  saved_places places;
  pass_schedule passes;
  job::undone_steps undone;        ///< counts where the run decides when it updates
  bool change_of_updates = false;  ///< before the next step
  run_over over;

  /// The most bytes of activations that a rank has had.
  [[nodiscard]] uint64_t peak_bytes(uint32_t rank) const;
  /// The states by elements of whole parameters.
  [[nodiscard]] whole_states whole() const { return {memory.ranks, plan.tensor}; }

  // open.cpp
  core::result<void> make_own_system();
  core::result<void> take_memory(first_weights weights, opening_watch& watch);
  /// The swap folder of this process.
  [[nodiscard]] std::filesystem::path swap_folder() const;
  /// Starts the actors; keeps the telemetry actor of the term before, if there was one.
  core::result<void> start_actors();

  // session.cpp: running
  void use_programs(plan::plan_choice which, plan::rank_plans plans);
  /// Writes the plans of this kind unless they are there.
  core::result<void> want(plan::plan_choice which);
  [[nodiscard]] const std::shared_ptr<const program>& program_of(plan::plan_choice which, uint32_t rank) const {
    return (*programs[rank])[static_cast<size_t>(which)];
  }
  /// The order to the ranks for a run of this plan.
  [[nodiscard]] std::shared_ptr<step_order> order_for(plan::plan_choice which, uint64_t step, const run_wish& wish);
  /// Runs the plan on the ranks of this process.
  core::result<run_outcome> run_here(plan::plan_choice which, const std::shared_ptr<step_order>& order);
  /// One training step, booked and recorded; the host is not told.
  core::result<step_report> train_once();
  void book(const run_outcome& did);
  /// Runs a plan once. Warnings wait: the caller tells the host after it has booked what the run did.
  core::result<run_outcome> run(plan::plan_choice which, uint64_t step, const run_wish& wish = {});
  /// Runs a plan once, as run() does, and tells the host at once.
  core::result<run_outcome> run_and_tell(plan::plan_choice which, uint64_t step, const run_wish& wish = {});

  // evaluate.cpp, state.cpp: once, by the ranks as they are
  core::result<evaluation_report> evaluate(const evaluation_request& request, uint64_t n);
  core::result<std::vector<int64_t>> generate(std::vector<int64_t> text, uint64_t tokens, double temperature);

  // compile.cpp
  /// The configuration's schedule, from the step that the run begins with.
  void schedule_passes();
  /// Called in the leading process as a term begins: takes the passes of the term before, or begins anew.
  void schedule_passes_again();
  /// Before a step: changes the plans of training if the schedule says so.
  core::result<void> change_passes();
  /// Before any run: plans of what is compressed after the updates so far.
  core::result<void> enter_phase();
  /// Goes back to what steps ran by before the entry that was tried, if that was faster.
  core::result<void> end_trial();
  /// Training runs by `changed` from the next step on.
  core::result<void> take_steps(job::changed_steps changed, passes_report report);
  /// Before a step: updates come before the vote, or behind it again, by how many of the last steps were undone.
  core::result<void> change_updates();
  /// Training updates before the vote.
  [[nodiscard]] bool updates_early() const;
  /// Training's updates come before the vote, or behind it, from the next step on; only where the run decides that.
  core::result<void> use_updates(bool early);
  /// The memory and the programs of the ranks become those of `changed`.
  core::result<void> use_steps(job::changed_steps& changed);
  /// Before a step: forgets earlier peaks of memory, if this step is measured.
  void begin_measuring();
  /// After it: what may be wanted for another schedule of passes, while the steps before it run.
  void measure(std::span<const telemetry::rank_spans> step);
  /// All ranks' votes on what was measured, joined. The host is told of a rank without a profile.
  plan::joined_votes vote();

  // offload.cpp: may states be used or changed now
  /// Refuses while the run is over or states are elsewhere.
  [[nodiscard]] core::result<void> sound() const;
  /// Before states change other than by a step: `sound`, and a save that was asked for has its copies.
  core::result<void> let_go_of_states();

  // spike.cpp
  /// After a step whose loss has risen too far: goes back, or ends the run.
  core::result<loss_spike> answer_spike(const step_report& report);
  /// To the newest save in memory, by another term. `why`: its cause.
  core::result<void> go_back_in_memory(std::vector<core::left_out_steps> left_out, const std::string& why);
  void add_older_places(saved_places& to, uint64_t newest) const;
  /// False: that checkpoint cannot be taken, and the run is as it was.
  core::result<bool> go_back_on_disk(const saved_places::place& to, std::vector<core::left_out_steps> left_out);
  /// Decisions for a run that has taken `first_sample` samples in `first_step` steps; it keeps the `recorded` ones.
  core::result<std::vector<core::left_out_steps>> decide_left_out(std::vector<core::left_out_steps> recorded,
                                                                  uint64_t first_step, uint64_t first_sample) const;
  /// Decides which samples a run that begins at step 0 leaves out.
  core::result<void> leave_out_from_the_start();
  /// A line for each decision, for people.
  [[nodiscard]] std::vector<std::string> left_out_lines() const;
  /// Applies these decisions from now on; the caller tells the loader.
  void leave_out(std::vector<core::left_out_steps> decided);

  // data.cpp
  /// How the plan's ranks cut the data, from its first sample on.
  void set_batch_shape();
  core::result<void> read_data(opening_watch& watch, const std::shared_ptr<const read_texts>& texts);
  [[nodiscard]] std::vector<config::data_source> sources() const;
  core::result<std::shared_ptr<const data::token_stream>> open_source(const config::data_source& source,
                                                                      opening_watch& watch) const;
  core::result<void> make_corpus(std::vector<std::shared_ptr<const data::token_stream>> streams);
  core::result<uint64_t> num_evaluations(uint64_t wanted) const;
  /// The record of the data for checkpoints, measured once; none for a host's own batches, or where the data cannot be
  /// read any more.
  const std::optional<checkpoint::data_record>& data_record();

  // resume.cpp
  /// What checkpoints record of the teacher, if there is one; read when it is first asked for.
  core::result<void> look_at_teacher();
  /// The layers of `model.teacher` that the model begins with, where it begins with any.
  core::result<void> take_layers(opening_watch& watch);
  /// Takes a checkpoint over and gives its folder. An error before anything changed leaves all as it was; after that
  /// the run is over.
  core::result<std::filesystem::path> resume(const std::filesystem::path& from, load_options options, resume_time when,
                                             opening_watch& watch, const load_agreement& agreed = {});
  /// Takes over a checkpoint that is open, as resume() does.
  core::result<void> take_over(const checkpoint::tensor_source& from, load_options options, resume_time when,
                               opening_watch& watch, const load_agreement& agreed = {});
  /// session::load, once.
  core::result<loaded_checkpoint> load(const std::filesystem::path& path, const load_options& options);
  core::result<void> tell_loader();

  // pruning.cpp
  [[nodiscard]] core::result<std::vector<float>> whole_weight(uint32_t parameter) const;
  /// Makes the masks: from `saved`, and where that has none from the weights as they are now.
  core::result<void> make_masks(const std::vector<checkpoint::mask_record>& saved);
  [[nodiscard]] std::vector<checkpoint::mask_record> saved_masks() const;
  /// snip_momentum, around a step: |w g| of what it began with and of its gradients goes to the scores.
  core::result<void> begin_saliency();
  core::result<void> end_saliency();
  /// Before any run: masks of the updates so far.
  void turn_masks();
  /// Called in the leading process, which alone makes masks: sends them to the others.
  void tell_masks() const;

  // model_file.cpp
  /// session::save_16bit_model, once.
  [[nodiscard]] core::result<bool> write_16bit_model(const std::filesystem::path& path,
                                                     bool exclude_frozen_parameters) const;

  // checkpoint.cpp
  core::result<void> begin_save(const save_request& request);
  core::result<std::shared_ptr<save_job>> make_save(checkpoint::file_system& files, const save_request& request);
  /// All ranks' plans that save; from then on they have staging memory here.
  core::result<std::vector<std::shared_ptr<const plan::rank_plan>>> saving_plans();
  [[nodiscard]] ranks_here ranks_of_process() const;
  core::result<void> save_without_lanes(const save_request& request);
  core::result<void> end_saves();
  /// Tells the host once how the save ended that is being written. The error is the save's.
  std::optional<core::error> collect_save(unfinished_save what);

  // telemetry.cpp
  telemetry_setup make_telemetry();
  core::result<void> open_records();
  void record(const step_report& r, std::shared_ptr<const std::vector<telemetry::rank_spans>> spans);
  void record_loss(double loss);
  /// The run is back at an earlier step: what was recorded of later ones goes.
  void go_back_in_records();
  session_records finish(session_ending ending);
  [[nodiscard]] std::vector<telemetry::memory_row> memory_rows() const;
  void log_memory(const std::string& when);

  // term.cpp
  /// The same job, whose degrees alone may be others, from the next step on. An error leaves the run as it was.
  core::result<void> begin_term(std::shared_ptr<const config::job_config> next);
  core::result<void> make_term(const term& before, const std::vector<checkpoint::mask_record>& masks);
  term give_term();
  void take_term(term t);

  // shared_texts.cpp: of several processes, the texts of a term
  core::result<void> take_texts(opening_watch& watch);
  core::result<void> give_texts() const;

  // processes.cpp: the terms of a job of several processes
  core::result<void> join_processes(const session_options& options, opening_watch& watch);
  /// Between two steps: the states are kept, and a term with so many data ranks goes on with them (0: as many as there
  /// can be).
  core::result<void> end_term_for(uint32_t data, const std::string& cause = {});
  core::result<void> change_processes(const config::job_config& next);
  /// Takes part in the terms that come until one has begun in which this process has ranks. Errors: the run is over.
  core::result<void> enter_term(opening_watch& watch);
  core::result<void> make_processes_term(const cluster::term_order& order, opening_watch& watch);
  /// Called in a process that leads and did not before.
  void count_terms_before(const cluster::run_so_far& before, int64_t begin_ns);
  core::result<void> serve_until_masks();
  core::result<void> take_states(const cluster::term_order& order, const opening_call& opening, opening_watch& watch);
  /// Gives the ranks up, after `why`, or since the term has ended. Errors: the run is over.
  core::result<void> leave_term(const core::error& why);
  /// Leaves the term because of `why` and enters the next one.
  core::result<void> recover(const core::error& why);
  /// Recovers to the state after `steps` steps. `begin_ns`: the begin of the interrupted work.
  core::result<void> recover_to(uint64_t steps, const core::error& why, int64_t begin_ns);
  /// After something that failed: where the term has ended, the run as it was is over. A save or a read that waits for
  /// another process's bytes fails without any rank that does.
  void note_loss();
  /// Does what needs the ranks of all processes; where some are lost meanwhile, once more with those that are left.
  template <class Deed>
  auto outlasting(Deed deed) -> decltype(deed()) {
    for (const uint64_t steps = progress.steps;;) {
      const int64_t begin_ns = core::now_ns();
      auto did = deed();
      if (!did) note_loss();
      if (did || !processes.is_on() || !over.why) return did;
      if (auto ok = recover_to(steps, did.error(), begin_ns); !ok) return core::fail(ok.error());
    }
  }

  // served.cpp: calls, of the process that leads and of the others
  core::result<run_outcome> run_everywhere(plan::plan_choice which, const std::shared_ptr<step_order>& order);
  core::result<void> add_reports(uint64_t number, run_outcome& to);
  /// Says which links between machines have become slow. After a training step.
  void name_slow_links(const std::vector<link_traffic>& links);
  core::result<void> obey(const cluster::call& c);
  core::result<void> obey(uint64_t number, const run_call& c);
  core::result<void> obey(uint64_t number, const read_call& c);
  core::result<void> obey(uint64_t number, const write_call& c);
  [[nodiscard]] states_elsewhere states_of(uint32_t rank) const;

  // together.cpp: what all processes do between two steps
  core::result<void> obey(uint64_t number, const load_call& c);
  core::result<void> obey(uint64_t number, const offload_call& c);
  /// Called in the leading process: the others' results of a call, in the order of their ranks. Errors: the term has
  /// ended, and so has the run as it was.
  core::result<std::vector<deed_answer>> deeds(uint64_t number);
  core::result<std::filesystem::path> load_together(const std::filesystem::path& path, const load_options& options);
  core::result<offload_report> offload_here(offload_request request);
  core::result<offload_report> offload_together(const offload_request& request);
  core::result<void> reload_here();
  core::result<void> reload_together();
  /// Asks all how they name the checkpoint that is saved now (`checkpoint.tag_validation`).
  core::result<void> check_tags(const std::string& mine);

  core::result<std::shared_ptr<save_job>> join_save(checkpoint::file_system& files, uint64_t run,
                                                    const save_invitation& invitation, const save_request& request);

  // node_local.cpp: checkpoints on the disks of machines
  /// Where there is to be one folder of all: each machine sees what who leads has put there, while `sign` lives, and
  /// may write there. Errors: bad_input.
  core::result<void> look_at_output(std::optional<output_sign>& sign);
  /// True if this job's checkpoints are on the disks of its machines.
  [[nodiscard]] bool has_disks_of_machines() const;
  [[nodiscard]] std::unique_ptr<node_local_files> files_of_machines() const;
  /// Where this process writes its part of a save on the disk, and syncs it.
  core::result<save_invitation> place_of_part(const save_invitation& invitation) const;
  /// Called in the leading process after a save: tells the other machines to keep their parts.
  void tell_machines(const save_job& save, const save_report& report);
  core::result<void> obey(const committed_call& c);

  // kept.cpp: saves in memory
  /// Before a training step: the states as they are go to memory while it runs, if that is due.
  core::result<void> keep_states();
  /// Now, and waits.
  core::result<void> keep_states_now();
  core::result<void> begin_keeping();
  /// Before the step is told that ran meanwhile, so that a loss from then on costs no more than this step. Errors: the
  /// term has ended, and the save was not whole.
  core::result<void> end_keeping();

  // host.cpp
  void deliver_warnings();
  void end_actors();
};

}  // namespace troupe::actors
