// Prints the terms of an instruction's predicted time.
#pragma once

#include <cstdint>
#include <string>

#include "apps/base/output_form.hpp"
#include "plan/choose/cost.hpp"

namespace troupe::apps {

/// Prints the terms of instruction `id` of a plan, and their sum. Returns the exit code: 2 if the plan has no such
/// instruction.
int show_cost(const plan::rank_plan& p, uint32_t id, const plan::cost_model& costs, const std::string& source,
              output_form form);

}  // namespace troupe::apps
