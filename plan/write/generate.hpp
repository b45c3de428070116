// Writes plans: data parallel x ZeRO 0 to 3 x gradient accumulation, forward-only plans, generation.
#pragma once

#include <memory>

#include "core/error.hpp"
#include "plan/step_plan.hpp"

namespace troupe::plan {

/// The plan of one rank. Refuses more ranks than the model can be cut into and impossible sizes.
/// Every rank's plan has the same collectives in the same order. The checker (check.hpp) proves it.
core::result<std::shared_ptr<const step_plan>> generate(std::shared_ptr<const core::model_table> table,
                                                        const plan_options& options, uint32_t rank);

}  // namespace troupe::plan
