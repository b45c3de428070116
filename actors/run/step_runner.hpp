// Runs plans on the ranks of a run: one training step with everything that belongs to it, or one plan of another kind.
// Owns the orders to the actors, the wait for them, and what a step adds to the run's progress.
#pragma once

#include <memory>
#include <string>

#include "actors/messages.hpp"
#include "actors/run/reports.hpp"
#include "core/error.hpp"

namespace troupe::actors {

struct training_run;

/// The options of one run of a plan, in addition to its step.
struct run_wish {
  /// batch with which the run computes instead of the loader's, as step_order::given
  std::shared_ptr<const data::batch> given{};
  uint32_t micros = 0;        ///< number of micro-batches of the run, as step_order::micros
  bool keeps_logits = false;  ///< true: an evaluation stores its logits, as step_order::keeps_logits
  std::string output{};       ///< name of the model's output to store, as step_order::output
  /// False: an evaluation computes outputs only, as step_order::computes_loss.
  bool computes_loss = true;
};

class step_runner {
 public:
  explicit step_runner(training_run& run) : run_(run) {}
  step_runner(const step_runner&) = delete;
  step_runner& operator=(const step_runner&) = delete;

  /// Runs one step for the host: everything before and after it, hooks included (session::step).
  core::result<step_report> step();
  /// Runs one training step, books and records it; does not notify the host.
  core::result<step_report> train_once();

  /// Runs a plan once on the ranks of all processes. Warnings are stored: the caller passes them to the host after it
  /// has booked the result of the run.
  core::result<run_outcome> run(plan::plan_choice which, uint64_t step, const run_wish& wish = {});
  /// Runs a plan once, as run() does, and passes warnings to the host at once.
  core::result<run_outcome> run_and_tell(plan::plan_choice which, uint64_t step, const run_wish& wish = {});
  /// Returns the order to the ranks for a run of this plan, numbered as the next run.
  [[nodiscard]] std::shared_ptr<step_order> order_for(plan::plan_choice which, uint64_t step, const run_wish& wish);
  /// Runs the plan on the ranks of this process. Errors: the run is over.
  core::result<run_outcome> run_here(plan::plan_choice which, const std::shared_ptr<step_order>& order);
  /// Adds a training step to the progress of the run. Call before the host is notified of the step: an exception of a
  /// hook must not make the next call apply the batch again.
  void book(const run_outcome& did);

 private:
  training_run& run_;
};

}  // namespace troupe::actors
