// Changes the training steps of a blueprint during a run, when a phase of compression begins, passes are chosen anew or
// a step has another number of micro-batches. Makes the new plans; the code that runs them switches to them between two
// steps.
#pragma once

#include <memory>
#include <vector>

#include "job/blueprint.hpp"

namespace troupe::job {

/// True if the blueprint's plans are those of the current phase: they compress exactly the modules that are compressed
/// after `updates` applied updates.
bool is_phase_of(const blueprint& b, uint64_t updates);
/// Replaces the blueprint's plans by those of the steps after `updates` updates. The states keep their places, and the
/// pools are as large as the largest phase needs; all phases were proved when the blueprint was made. If
/// step_plans::write returns an error, the blueprint stays unchanged.
core::result<void> enter_phase(blueprint& b, uint64_t updates);

/// Plans of training steps that a run uses from some step on in place of the blueprint's.
struct changed_steps {
  plan::plan_options train, train_saving;
  /// Plans of training steps that do not save; the plans of steps that save are proved, too, but not stored.
  step_plans plans;
  std::vector<std::shared_ptr<const plan::rank_plan>> ranks;  ///< [rank]: the plan of that rank, from `plans`
  /// [rank]: sizes of the rank's memory pools, the largest that any kind of step needs.
  std::vector<plan::pool_sizes> pools;
  plan::compiled_step compiled;
};
/// Returns the plans of training steps with the passes that `wish` requests, for use between two steps of a run of `b`.
/// Returns every error of compile_step and of the plan checker.
core::result<changed_steps> change_steps(const blueprint& b, const pass_wish& wish);

/// Applies the passes in `chosen`, which rank 0's process chose for this blueprint, to its training steps. Pools become
/// as large as the largest plan of these steps needs. On an error the blueprint stays unchanged.
core::result<void> use_chosen_passes(blueprint& b, const plan::plan_options& chosen);

/// Returns the plans of training steps of `micros` micro-batches, from 1 to gradient_accumulation_steps, in which every
/// state stays in its place and every unit in its pipeline stage. Errors: those of choose_pipeline, for a schedule that
/// has no such number, and of the plan checker.
core::result<changed_steps> with_micros(const blueprint& b, uint32_t micros);

/// Enlarges the pools of a blueprint for steps of the other numbers of micro-batches that its job may have
/// (config/sections/step_counts.hpp), and proves their plans. Errors: those of with_micros; bad_input for batch sizes
/// at this degree that the job cannot have.
core::result<void> make_room_for_counts(blueprint& b);

/// Enlarges the pools `all`, indexed by rank, to at least the sizes that `plans` need.
void note_pools(const step_plans& plans, std::vector<plan::pool_sizes>& all);

}  // namespace troupe::job
