// Generates the plans of a small model for simulations of several processes, once for each number of data ranks and
// ZeRO stage.
#pragma once

#include <map>
#include <utility>

#include "sim/terms/term_company.hpp"
#include "tests/plan/cuts.hpp"

namespace troupe::sim {

inline const plans_by_choice& small_plans(uint32_t data, uint32_t stage) {
  static std::map<std::pair<uint32_t, uint32_t>, plans_by_choice> known;
  auto& out = known[{data, stage}];
  if (!out.empty()) return out;
  const auto table = plan::chain_table({3000, 5000});
  out.resize(plan::num_plan_choices);
  for (const auto which : {plan::plan_choice::train, plan::plan_choice::train_saving, plan::plan_choice::save}) {
    auto options = plan::small_options(data, stage);
    options.mode = mode_of(which);
    options.saving.on = saves(which);
    if (options.mode != plan::mode::train) plan::only_forward(options, 1);
    out[static_cast<size_t>(which)] = plan::plans_of(table, options);
  }
  return out;
}

}  // namespace troupe::sim
