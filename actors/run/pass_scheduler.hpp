// Changes plans between steps: when training's plans change, through passes or because a technique of compression
// begins, and to which plans. Owns the schedule, the measurements that a trial compares, and the switch;
// job/compile.hpp chooses, the checker proves.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "actors/run/reports.hpp"
#include "job/changed_steps.hpp"
#include "job/early_updates.hpp"
#include "plan/choose/profile_votes.hpp"
#include "telemetry/instruction_times.hpp"

namespace troupe::actors {

struct training_run;
struct told_schedule;

class pass_scheduler {
 public:
  explicit pass_scheduler(training_run& run) : run_(run) {}
  pass_scheduler(const pass_scheduler&) = delete;
  pass_scheduler& operator=(const pass_scheduler&) = delete;

  /// Replaces the schedule of passes; session::compile describes its entries and errors.
  core::result<void> compile(std::vector<scheduled_passes> schedule);
  /// Sets the configuration's schedule of passes, from the step that the run begins with.
  void schedule();
  /// Called in the leading process when a term begins. Keeps the schedule's entries if `continues` is true and there
  /// are any; otherwise sets the entries of `told` (the schedule of an embedding program), or else the configuration's.
  void schedule_again(bool continues, const std::optional<std::vector<told_schedule>>& told);
  /// True if a schedule of passes exists: passes change the plans now or in a later step.
  [[nodiscard]] bool has_schedule() const { return !entries_.empty(); }

  /// Makes the changes that are due: of passes, and of the order of updates and the vote. Call before each step.
  core::result<void> change_plans();
  /// Makes the plans that apply after the updates so far: which modules are compressed changes with them. Call before
  /// any run.
  core::result<void> enter_phase();

  /// True if training steps update parameters before the vote.
  [[nodiscard]] bool updates_early() const;
  /// Moves training's updates before the vote (`early`) or after it, from the next step on; without effect unless the
  /// run decides that order itself.
  core::result<void> use_updates(bool early);
  /// Records whether the updates of a step were undone; used only if the run itself decides the order of updates and
  /// the vote.
  void note_undone(bool undone);
  /// Forgets the counted steps, because a term with other processes begins.
  void forget_undone();

  /// Resets the peaks of memory if the next step is measured. Call before a step.
  void begin_measuring();
  /// Stores the measurements of a step that another schedule of passes may need, while the steps before that schedule
  /// run. Call after a step.
  void measure(std::span<const telemetry::rank_spans> step);

 private:
  struct entry {
    uint64_t step = 0;
    job::pass_wish wish;
    /// If greater than 0, the entry is on trial: after this number of steps the run continues with the faster of two
    /// plans, that of this entry and that of the previous one.
    uint64_t tried_steps = 0;
  };
  struct earlier {       ///< the steps that ran before an entry that is on trial
    uint64_t until = 0;  ///< number of steps done when the trial ends
    double step_s = 0;   ///< measured seconds of a step with the plan before the trial
    job::changed_steps steps;
  };

  /// Returns the end of the entries that take effect after `steps` steps; `next_` if no entry does.
  [[nodiscard]] size_t due(uint64_t steps) const;
  [[nodiscard]] bool is_measuring() const { return next_ < entries_.size() || before_.has_value(); }
  [[nodiscard]] bool is_measured() const { return times_.steps() > 0 && times_.is_warm(); }
  core::result<void> change_passes();
  /// Moves updates before the vote, or after it again, depending on how many of the last steps were undone.
  core::result<void> change_updates();
  /// Ends a trial of passes: returns to the plan from before the trial, if that one was faster.
  core::result<void> end_trial();
  /// Makes training use the plans in `changed` from the next step on.
  core::result<void> take_steps(job::changed_steps changed, passes_report report);
  /// Switches the memory of all ranks to the plans `to`; on an error, of none.
  core::result<void> switch_memory(plan::rank_plans to, std::span<const plan::pool_sizes> sizes);
  /// Makes the plans of a phase of compression those of the run, which ends a trial of passes.
  void begin_phase(job::blueprint entered);
  /// Makes the memory and the programs of the ranks those of `changed`. On an error nothing has changed.
  core::result<void> use_steps(job::changed_steps& changed);
  /// Returns all ranks' votes on the measured steps, joined. Reports a rank without a profile to the host.
  plan::joined_votes vote();
  void forget_measurements();

  training_run& run_;
  std::vector<entry> entries_;  // which passes act from which training step on, ascending by step
  size_t next_ = 0;  // index in `entries_` of the next entry to apply; earlier entries were applied or skipped
  std::optional<earlier> before_;       // the plan before the current trial; none: no entry is on trial
  telemetry::instruction_times times_;  // times of instructions, from the steps since the plan last changed
  std::vector<uint64_t> peak_bytes_;    // [rank]: peak bytes of activations in the steps since the plan last changed
  /// Seconds of a step of the plan that the last trial went back to, as measured; 0: no trial went back.
  double step_s_ = 0;
  job::undone_steps undone_;        // counts undone updates, if the run itself decides whether updates precede the vote
  bool change_of_updates_ = false;  // true: the order of updates and vote changes before the next step
};

}  // namespace troupe::actors
