#include "job/changed_steps.hpp"

#include <algorithm>
#include <utility>

#include "config/sections/step_counts.hpp"
#include "job/pipeline.hpp"

namespace troupe::job {
namespace {

plan::plan_options& options_in(blueprint& b, plan::plan_choice which) { return b.options[static_cast<size_t>(which)]; }

/// Writes the plans of the options in `out`, enlarges its pools, and proves all of them.
core::result<void> write_changed(const blueprint& b, changed_steps& out) {
  for (const auto* options : {&out.train_saving, &out.train}) {
    TROUPE_ASSIGN(auto plans, step_plans::write(b.table, *options));
    note_pools(plans, out.pools);
    out.plans = std::move(plans);
    if (options == &out.train) break;
    TROUPE_TRY(out.plans.prove());
  }
  TROUPE_ASSIGN(auto ranks, out.plans.proved());
  out.ranks = std::move(ranks);
  return {};
}

/// Returns the pipeline of steps of `micros` micro-batches with the stages that the blueprint has.
core::result<plan::pipeline_options> pipeline_of(const blueprint& b, uint32_t micros) {
  if (!b.pipeline.is_cut() || micros == b.config->gradient_accumulation_steps) return b.pipeline.training;
  config::job_config c = *b.config;
  c.gradient_accumulation_steps = micros;
  c.pipeline.first_units.clear();
  for (const uint32_t unit : b.pipeline.training.first_unit)
    c.pipeline.first_units.push_back(unit - b.table->teacher_units);
  auto trains = b.options[static_cast<size_t>(plan::plan_choice::train)];
  trains.accumulation = micros;
  trains.pipeline = {};
  TROUPE_ASSIGN(auto chosen, choose_pipeline(c, *b.table, trains));
  return std::move(chosen.training);
}

}  // namespace

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

core::result<changed_steps> change_steps(const blueprint& b, const pass_wish& wish) {
  TROUPE_ASSIGN(auto compiled, compile_step(*b.config, b.table, b.plain, wish, b.costs, choice_time::between_steps));
  changed_steps out;
  out.train = b.options[static_cast<size_t>(plan::plan_choice::train)];
  out.train_saving = b.options[static_cast<size_t>(plan::plan_choice::train_saving)];
  out.pools = b.pools;
  for (auto* options : {&out.train_saving, &out.train}) take_passes(compiled.chosen.options, *options);
  TROUPE_TRY(write_changed(b, out));
  out.compiled = std::move(compiled);
  return out;
}

core::result<changed_steps> with_micros(const blueprint& b, uint32_t micros) {
  TROUPE_ASSIGN(const auto pipeline, pipeline_of(b, micros));
  changed_steps out;
  out.train = b.options[static_cast<size_t>(plan::plan_choice::train)];
  out.train_saving = b.options[static_cast<size_t>(plan::plan_choice::train_saving)];
  out.pools = b.pools;
  for (auto* options : {&out.train_saving, &out.train}) {
    options->accumulation = micros;
    options->pipeline = pipeline;
  }
  TROUPE_TRY(write_changed(b, out));
  return out;
}

core::result<void> make_room_for_counts(blueprint& b) {
  if (!config::has_other_counts(*b.config)) return {};
  if (const auto found = config::find_count_problem(*b.config))
    return core::fail(core::error_kind::bad_input, found->key + ": " + found->text);
  if (b.compression->phases().size() > 1)
    return core::fail(core::error_kind::bad_input,
                      "compression_training: techniques that begin during a run cannot be combined with steps of "
                      "different numbers of micro-batches (data.rampup_batch_size, managed_gradient_accumulation: "
                      "false); let them begin with the run");
  for (const uint32_t micros : config::other_step_counts(*b.config))
    for (const bool early : {false, true}) {
      if (early && b.early.worth == 0) continue;
      blueprint asked = b;
      for (const auto which : {plan::plan_choice::train, plan::plan_choice::train_saving})
        if (early) options_in(asked, which).updates.speculate = true;
      TROUPE_ASSIGN(auto steps, with_micros(asked, micros));
      b.pools = std::move(steps.pools);
    }
  return {};
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
