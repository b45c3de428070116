// What units and stages of a pipeline cost, before any plan of them is written: time by the cost model's rates, bytes
// by the table's sizes. Owns the estimate; a written plan has the exact numbers.
#pragma once

#include <vector>

#include "plan/choose/cost.hpp"
#include "plan/schedule/stage_cut.hpp"
#include "plan/schedule/timing.hpp"

namespace troupe::plan {

/// One unit on a rank that has it whole.
struct modelled_unit {
  stage_cost micro;          ///< of one micro-batch; recomputation is part of the gradient of the input
  double update_s = 0;       ///< of a step
  uint64_t state_bytes = 0;  ///< parameters, gradients, optimizer states that stay in memory
};

/// [unit] As the options train them: dtypes, ZeRO stage, tiers, recomputation. A parameter that several units use is
/// counted in each of them.
std::vector<modelled_unit> model_units(const core::model_table& table, const plan_options& options,
                                       const cost_model& costs);

/// `more`, which is computed beside `to`, counted with that.
void add_costs(const modelled_unit& more, modelled_unit& to);

/// [unit] For cut_best: an update is spread over the step's micro-batches.
std::vector<unit_cost> costs_for_cut(const std::vector<modelled_unit>& units, uint32_t micro_batches);

/// [stage] For the clock of tables; the slowest boundary's transfer. `units` and `cut` are of the model itself.
pipeline_costs costs_of_stages(const core::model_table& table, const std::vector<modelled_unit>& units,
                               const stage_offsets& cut, const cost_model& costs);

}  // namespace troupe::plan
