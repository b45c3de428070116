// Runs plans on the ranks of a run: a training step with everything that belongs to it, or one plan of another kind.
// Owns the orders to the actors, the wait for their results, and the changes that a step makes to the run's progress.
#pragma once

#include <cstdint>
#include <memory>

#include "actors/messages.hpp"
#include "actors/run/reports.hpp"
#include "actors/step_context.hpp"
#include "core/error.hpp"

namespace troupe::actors {

struct training_run;

/// Selects what a training step trains on: the run's own data, or the batches for which the host program has called
/// backward (own_loop.hpp).
enum class step_data : uint8_t { of_run, of_host };

class step_runner {
 public:
  explicit step_runner(training_run& run) : run_(run) {}
  step_runner(const step_runner&) = delete;
  step_runner& operator=(const step_runner&) = delete;

  /// Implements session::step: runs one training step, with everything before and after it, hooks included.
  core::result<step_report> step();
  /// Runs one training step, and adds it to progress and records; does not notify the host program.
  core::result<step_report> train_once(step_data data = step_data::of_run);
  /// Advances the run's position in its data by the `samples` samples of a host program on which the last step has
  /// trained, so that the run's next step begins behind them. Call after book().
  core::result<void> take_own_samples(uint64_t samples);

  /// Runs a plan once on the ranks of all processes. Warnings of the run wait: the caller passes them to the embedding
  /// program when it has used the result.
  core::result<run_outcome> run(plan::plan_choice which, uint64_t step, const run_wish& wish = {});
  /// Runs a plan once, as run() does, and passes its warnings to the host program at once.
  core::result<run_outcome> run_and_tell(plan::plan_choice which, uint64_t step, const run_wish& wish = {});
  /// Returns the order for a run of this kind of plan, with the next number for the run, as all ranks receive it.
  [[nodiscard]] std::shared_ptr<step_order> order_for(plan::plan_choice which, uint64_t step, const run_wish& wish);
  /// Runs a plan once on the ranks of this process, and waits for its end. Errors: the run has ended.
  core::result<run_outcome> run_here(plan::plan_choice which, const std::shared_ptr<step_order>& order);
  /// Adds the result of a training step to the run's progress. Call before the host program is notified of the
  /// step: if one of its hooks throws, the next call must not train on the same batch again.
  void book(const run_outcome& did);

 private:
  training_run& run_;
  std::shared_ptr<const plan::job_layout> layout_;  // of the last step in which no checkpoint was taken
};

}  // namespace troupe::actors
