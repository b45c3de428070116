#include "job/changed_steps.hpp"

#include <algorithm>
#include <utility>

namespace troupe::job {

void note_pools(const step_plans& plans, std::vector<plan::pool_sizes>& all) {
  all.resize(plans.ranks());
  for (uint32_t r = 0; r < plans.ranks(); ++r)
    for (uint32_t k = 0; k < plan::num_pools; ++k)
      all[r].bytes[k] = std::max(all[r].bytes[k], plans.like(r).pool_bytes[k]);
}

bool is_phase_of(const blueprint& b, uint64_t updates) {
  return b.options[static_cast<size_t>(plan::plan_choice::train)].compressed == b.compression->after(updates);
}

core::result<void> enter_phase(blueprint& b, uint64_t updates) {
  auto options = b.options[static_cast<size_t>(plan::plan_choice::train)];
  options.compressed = b.compression->after(updates);
  TROUPE_ASSIGN(auto plans, step_plans::write(b.table, options));
  for (auto& each : b.options) each.compressed = options.compressed;
  b.plain.compressed = std::move(options.compressed);
  b.train = std::move(plans);
  return {};
}

core::result<changed_steps> change_steps(const blueprint& b, const pass_wish& wish, const measured_run& measured) {
  TROUPE_ASSIGN(auto compiled,
                compile_step(*b.config, b.table, b.plain, wish, b.costs, choice_time::between_steps, measured));
  changed_steps out;
  out.train = b.options[static_cast<size_t>(plan::plan_choice::train)];
  out.train_saving = b.options[static_cast<size_t>(plan::plan_choice::train_saving)];
  out.pools = b.pools;
  for (auto* options : {&out.train_saving, &out.train}) {
    take_passes(compiled.chosen.options, *options);
    TROUPE_ASSIGN(auto plans, step_plans::write(b.table, *options));
    note_pools(plans, out.pools);
    out.plans = std::move(plans);
    if (options == &out.train) break;
    TROUPE_TRY(out.plans.prove());
  }
  TROUPE_ASSIGN(auto ranks, out.plans.proved());
  out.ranks = std::move(ranks);
  out.compiled = std::move(compiled);
  return out;
}

core::result<void> use_chosen_passes(blueprint& b, const plan::plan_options& chosen) {
  plan::plan_options& train = b.options[static_cast<size_t>(plan::plan_choice::train)];
  plan::plan_options& saving = b.options[static_cast<size_t>(plan::plan_choice::train_saving)];
  plan::plan_options new_train = train, new_saving = saving;
  auto pools = b.pools;
  step_plans plans;
  for (auto* options : {&new_saving, &new_train}) {
    take_passes(chosen, *options);
    TROUPE_ASSIGN(auto now, step_plans::write(b.table, *options));
    note_pools(now, pools);
    TROUPE_TRY(now.prove());
    for (const uint64_t from : b.compression->phases()) {
      plan::plan_options later = *options;
      later.compressed = b.compression->after(from);
      TROUPE_ASSIGN(const auto of_phase, step_plans::write(b.table, later));
      note_pools(of_phase, pools);
    }
    plans = std::move(now);
  }
  train = std::move(new_train);
  saving = std::move(new_saving);
  b.train = std::move(plans);
  b.pools = std::move(pools);
  return {};
}

}  // namespace troupe::job
