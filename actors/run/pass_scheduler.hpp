// Changes the plans of training between steps, by passes (transformations of a plan) or because a technique of
// compression begins. Owns the schedule of changes and the switch to other plans; job/compile.hpp chooses plans, the
// checker proves them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "actors/run/reports.hpp"
#include "job/changed_steps.hpp"
#include "job/early_updates.hpp"

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
  /// Makes the configuration's schedule of passes the current one, from the step with which the run begins.
  void schedule();
  /// Sets the schedule when a term (time with the same processes) begins, in the leading process. If `continues` is
  /// true and there are entries, keeps them; otherwise uses the entries `told`, which the host program has set,
  /// or, without these, the configuration's.
  void schedule_again(bool continues, const std::optional<std::vector<told_schedule>>& told);
  /// True if a schedule of passes exists: passes change the plans now or in a later step.
  [[nodiscard]] bool has_schedule() const { return !entries_.empty(); }

  /// Makes the changes that are due before the next step: passes, and whether updates run before or after the vote.
  /// Call before each step.
  core::result<void> change_plans();
  /// Makes the plans for the compression that is in effect after the updates so far. Call before any run.
  core::result<void> enter_phase();

  /// True if training steps run optimizer updates before the vote, and undo them if the step is skipped or clipped.
  [[nodiscard]] bool updates_early() const;
  /// Makes training steps run updates before the vote (`early`) or after it, from the next step on. Without effect if
  /// the configuration fixes that order.
  core::result<void> use_updates(bool early);
  /// Returns the number of micro-batches of training steps.
  [[nodiscard]] uint32_t step_micros() const;
  /// Makes training steps have `micros` micro-batches from the next step on. Errors (nothing has changed): those of
  /// job::with_micros; limit, if they need more memory than the run has taken.
  core::result<void> use_micros(uint32_t micros);
  /// Counts whether the updates of a step were undone, from which the run decides whether updates precede the vote;
  /// without effect if the configuration fixes that order.
  void note_undone(bool undone);
  /// Forgets the counted undone updates, because the run goes on with other ranks.
  void forget_undone();

 private:
  struct entry {
    uint64_t step = 0;
    job::pass_wish wish;
  };

  core::result<void> change_passes();
  /// Changes whether updates run before or after the vote, if the number of undone updates requires it.
  core::result<void> change_updates();
  /// Makes training use the plans in `changed` from the next step on.
  core::result<void> take_steps(job::changed_steps changed);
  /// Makes the memory of all ranks serve training by the plans `to` from the next step on: `to` has the plan of each
  /// rank, in rank order, and `sizes` the sizes that the rank's memory pools need at least for any kind of step. Fails
  /// if a plan stores states at other places than now, or memory is missing; the memory then serves the earlier plans.
  core::result<void> switch_memory(plan::rank_plans to, std::span<const plan::pool_sizes> sizes);
  /// Makes `entered`, with the plans for another state of compression, the plans of the run.
  void begin_phase(job::blueprint entered);
  /// Makes the ranks' memory and programs those of the plans in `changed`. After an error nothing has changed.
  core::result<void> use_steps(job::changed_steps& changed);

  training_run& run_;
  std::vector<entry> entries_;  // which passes act from which training step on, ascending by step
  size_t next_ = 0;           // index in `entries_` of the next entry to apply; earlier entries were applied or skipped
  job::undone_steps undone_;  // counts undone updates, if the run itself decides whether updates precede the vote
  bool change_of_updates_ = false;  // true: the order of updates and vote changes before the next step
};

}  // namespace troupe::actors
