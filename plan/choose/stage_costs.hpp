// Estimates the costs of units and stages of a pipeline before any plan of them is written: time by the cost model's
// rates, bytes by the table's sizes. A written plan has the exact numbers.
#pragma once

#include <vector>

#include "plan/choose/cost.hpp"
#include "plan/schedule/stage_cut.hpp"
#include "plan/schedule/timing.hpp"

namespace troupe::plan {

/// The costs of one unit on a rank that has the whole unit.
struct modelled_unit {
  stage_cost micro;          ///< costs of one micro-batch; backward_input_s includes the recompute
  double update_s = 0;       ///< seconds of the unit's update in a step
  uint64_t state_bytes = 0;  ///< bytes of the unit's parameters, gradients and optimizer states in memory
};

/// Returns the costs of each unit as the options train it: dtypes, ZeRO stage, tiers, recomputation. A parameter that
/// several units use is counted in each of them.
std::vector<modelled_unit> model_units(const core::model_table& table, const plan_options& options,
                                       const cost_model& costs);

/// Adds the forward and the states of `more`, a teacher's unit that is computed together with `to`, to the costs of
/// `to`.
void add_costs(const modelled_unit& more, modelled_unit& to);

/// Returns the costs of each unit for cut_best. An update is spread over the step's micro-batches.
std::vector<unit_cost> costs_for_cut(const std::vector<modelled_unit>& units, uint32_t micro_batches);

/// Returns the costs of each stage and of a transfer over the slowest boundary, for the simulation of pipeline tables
/// (play_table). `units` and `cut` are of the model itself, without a teacher.
pipeline_costs costs_of_stages(const core::model_table& table, const std::vector<modelled_unit>& units,
                               const stage_offsets& cut, const cost_model& costs);

}  // namespace troupe::plan
