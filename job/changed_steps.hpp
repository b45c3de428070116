// How the steps of a blueprint change while it runs: a phase of compression begins, passes are chosen anew. Plans that
// take the place of others; who runs them changes at a boundary.
#pragma once

#include <memory>
#include <vector>

#include "job/blueprint.hpp"

namespace troupe::job {

/// Whether what is compressed after `updates` is what the blueprint's plans have.
bool is_phase_of(const blueprint& b, uint64_t updates);
/// The blueprint's plans become those of steps after `updates`; states lie where they did, and pools are as large as
/// the largest phase needs; all were proved with the job. Errors: step_plans::write's, and nothing has changed.
core::result<void> enter_phase(blueprint& b, uint64_t updates);

/// Steps that train with other passes than a blueprint's.
struct changed_steps {
  plan::plan_options train, train_saving;
  step_plans plans;  ///< of `train`; those of `train_saving` are proved, too, and not kept
  std::vector<std::shared_ptr<const plan::rank_plan>> ranks;  ///< the same of every rank
  std::vector<plan::pool_sizes> pools;                        ///< [rank]: the most that any kind of step needs
  plan::compiled_step compiled;
};
/// Between two steps of a run of `b`. Errors: compile_step's and the checker's.
core::result<changed_steps> change_steps(const blueprint& b, const pass_wish& wish, const measured_run& measured = {});

/// The blueprint's steps that train become those with what `chosen` has of passes, as somebody has chosen them for it;
/// pools are as large as any phase of them needs. Errors: the checker's, and nothing has changed but pools.
core::result<void> use_chosen_passes(blueprint& b, const plan::plan_options& chosen);

/// Makes `all` [rank] at least as large as `plans` need.
void note_pools(const step_plans& plans, std::vector<plan::pool_sizes>& all);

}  // namespace troupe::job
