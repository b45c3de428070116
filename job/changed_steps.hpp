// Changes the training steps of a blueprint while it runs, if a phase of compression begins or passes are chosen anew.
// Owns the plans that replace others; the code that runs them switches at a step boundary.
#pragma once

#include <memory>
#include <vector>

#include "job/blueprint.hpp"

namespace troupe::job {

/// True if the blueprint's plans compress exactly the modules that have to be compressed after `updates` updates.
bool is_phase_of(const blueprint& b, uint64_t updates);
/// Replaces the blueprint's plans by those of the steps after `updates` updates. The states keep their places, and the
/// pools are as large as the largest phase needs; all phases were proved when the blueprint was made. If
/// step_plans::write returns an error, the blueprint stays unchanged.
core::result<void> enter_phase(blueprint& b, uint64_t updates);

/// Training steps whose passes differ from the passes of the blueprint.
struct changed_steps {
  plan::plan_options train, train_saving;
  step_plans plans;  ///< plans of `train`; the plans of `train_saving` are proved, too, but not kept
  std::vector<std::shared_ptr<const plan::rank_plan>> ranks;  ///< [rank]: the plan of that rank, from `plans`
  std::vector<plan::pool_sizes> pools;                        ///< [rank]: the largest pools of any kind of step
  plan::compiled_step compiled;
};
/// Returns the plans of training steps with the passes that `wish` requests, for use between two steps of a run of `b`.
/// Returns every error of compile_step and of the plan checker.
core::result<changed_steps> change_steps(const blueprint& b, const pass_wish& wish, const measured_run& measured = {});

/// Applies the passes in `chosen`, which were chosen elsewhere for this blueprint, to its training steps; pools become
/// as large as any phase of these steps needs. On an error the blueprint stays unchanged.
core::result<void> use_chosen_passes(blueprint& b, const plan::plan_options& chosen);

/// Enlarges the pools `all`, indexed by rank, to at least the sizes that `plans` need.
void note_pools(const step_plans& plans, std::vector<plan::pool_sizes>& all);

}  // namespace troupe::job
