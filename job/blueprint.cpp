#include "job/blueprint.hpp"

#include <algorithm>
#include <utility>

#include "core/system/processor.hpp"
#include "job/changed_steps.hpp"
#include "job/degrees.hpp"
#include "job/early_updates.hpp"
#include "job/model_tables.hpp"
#include "job/open_sizes.hpp"
#include "job/step/step_options.hpp"
#include "plan/layout/activation_extents.hpp"

namespace troupe::job {
namespace {

void set_scaling(blueprint& b) {
  const auto& c = *b.config;
  b.loss_scale = c.fp16;
  if (!c.fp16.enabled) b.loss_scale.loss_scale = 1.0;
  b.rules.clip = c.gradient_clipping;
  // Rounds the factor to fp32, the type in which the fabric applies it, so that the mean divides by exactly the same
  // factor.
  b.rules.input_scale =
      static_cast<float>(c.prescale_gradients ? 1.0 / c.parallel.data : 1.0 / c.gradient_predivide_factor);
  b.rules.skip_overflow = c.skips_overflow();
}

plan::writer_unit writers_of(const config::job_config& c) {
  using writers = config::checkpoint_section::writers;
  const auto who = c.checkpoint.writing;
  return who == writers::of_socket    ? plan::writer_unit::socket
         : who == writers::of_machine ? plan::writer_unit::machine
                                      : plan::writer_unit::replica;
}

plan::plan_options options_of(const blueprint& b, plan::plan_choice which, const plan::plan_options& sized) {
  const auto& c = *b.config;
  auto options = options_from(c, plan::mode_of(which));
  options.updates.rules = updates_of(*b.optimizer, *b.tensor.whole);
  options.saving = sized.saving;
  take_sizes(sized, options);
  // Every kind of step uses the same layout of the swap file. If the training step keeps reduced gradients in their
  // buckets, it swaps none; the other kinds of steps have a single micro-batch, with which they would swap gradients,
  // so the option is turned off for them.
  if (plan::mode_of(which) != plan::mode::train && sized.reduces_in_place()) options.tiers.swap_gradients = false;
  // A host program may save at any time, but the memory budget has to cover a save only if the configuration writes
  // checkpoints.
  if (plan::saves(which) && !c.checkpoint.is_on()) options.memory_budget_bytes = 0;
  options.saving.on = plan::saves(which);
  options.pipeline = b.pipeline.of(options.mode);
  options.compressed = b.compression->after(0);
  if (options.mode == plan::mode::evaluate && b.pipeline.is_cut()) {
    options.accumulation = options.pipeline.table.micro_batches;
    // Keeps the states at the offsets that they have with one micro-batch.
    options.gradients.sum_micro_first = options.stage <= 1;
  }
  return options;
}

// Enlarges the windows onto activation files to the size of the largest unit's input: windows cannot grow between
// steps, and passes that are chosen later may offload inputs that stay in memory at first.
void make_room_for_inputs(blueprint& b) {
  const auto& l = b.train.layout();
  if (!b.config->compile.enabled || l.options.tiers.activations != plan::tier::nvme) return;
  uint64_t most = 0;
  for (uint32_t u = 0; u < b.table->units.size(); ++u) most = std::max(most, plan::most_activation_window_bytes(l, u));
  for (auto& pools : b.pools) {
    auto& bytes = pools.bytes[static_cast<size_t>(plan::pool::activations)];
    bytes = std::max(bytes, std::max(2U, l.options.tiers.activation_slots) * most);
  }
}

/// Plans the steps with the passes of `compile`, for the phase of compression that begins after `from` updates, and
/// enlarges the pools of `b` to their sizes.
core::result<void> size_passes(blueprint& b, uint64_t from) {
  const auto entries = b.config->compile.entries();
  if (entries.empty()) return {};
  blueprint later = b;
  TROUPE_TRY(enter_phase(later, from));
  for (const auto& entry : entries) {
    TROUPE_ASSIGN(auto changed, change_steps(later, wish_of(*b.config, entry)));
    later.pools = b.pools = std::move(changed.pools);
  }
  return {};
}

// Writes and proves the plans of all phases of compression that begin during the run, so that their memory is known,
// and refused plans are reported, before the run starts.
core::result<void> size_phases(blueprint& b, const blueprint_watch& watch) {
  for (const uint64_t from : b.compression->phases()) {
    if (from == 0) continue;
    for (plan::plan_options options : b.options) {
      options.compressed = b.compression->after(from);
      TROUPE_ASSIGN(const auto plans, step_plans::write(b.table, options, watch.go_on));
      note_pools(plans, b.pools);
      TROUPE_TRY(plans.prove());
    }
    TROUPE_TRY(size_passes(b, from));
  }
  return {};
}

// Writes and proves the plans of every kind of step, so that no plan is refused in the middle of a run; only the plans
// of training steps are kept.
core::result<void> write_plans(blueprint& b, const blueprint_watch& watch) {
  for (size_t which = 0; which < plan::num_plan_choices; ++which) {
    TROUPE_ASSIGN(auto plans, step_plans::write(b.table, b.options[which], watch.go_on));
    note_pools(plans, b.pools);
    const bool trains = static_cast<plan::plan_choice>(which) == plan::plan_choice::train;
    if (trains) b.train = plans;
    if (trains && watch.sized) TROUPE_TRY(watch.sized(b));
    TROUPE_TRY(plans.prove());
  }
  return {};
}

plan::plan_options& options_for(blueprint& b, plan::plan_choice which) { return b.options[static_cast<size_t>(which)]; }

// Applies the passes over the plan that `compile` names for the first step of the run. The passes that it names for
// later steps are chosen when these steps begin.
core::result<void> use_passes(blueprint& b, const job::go_on& go_on) {
  const auto& c = *b.config;
  // A step that saves needs more memory than a step that does not, so its options are used if the run writes
  // checkpoints.
  b.plain = options_for(b, c.checkpoint.is_on() ? plan::plan_choice::train_saving : plan::plan_choice::train);
  const auto entries = c.compile.entries();
  if (entries.empty() || entries.front().step > 0) return {};
  TROUPE_ASSIGN(auto compiled, compile_step(c, b.table, b.plain, wish_of(c, entries.front()), b.costs,
                                            choice_time::before_a_run, go_on));
  for (const auto which : {plan::plan_choice::train, plan::plan_choice::train_saving})
    take_passes(compiled.chosen.options, options_for(b, which));
  // Every kind of step has the same ratio (share of states that are offloaded), also after later choices of passes,
  // because states are not moved during a run.
  b.plain.tiers.ratio = compiled.chosen.options.tiers.ratio;
  for (auto& options : b.options) options.tiers.ratio = b.plain.tiers.ratio;
  b.compiled = std::move(compiled);
  return {};
}

}  // namespace

plan::cost_model usual_costs(const config::job_config& c) {
  if (c.device != core::device_kind::cpu) return plan::card_costs(c.parameter_dtype());
  return plan::default_costs(c.parameter_dtype(), core::multiplies_natively(c.parameter_dtype()));
}

core::result<step_plans> blueprint::write(plan::plan_choice which, const job::go_on& more) const {
  auto out = step_plans::write(table, options[static_cast<size_t>(which)], more);
  if (!out) return out;
  TROUPE_TRY(out->prove());
  return out;
}

namespace {

// Chooses the open degrees of a job (parallel degrees that are `auto`) by the cost model.
core::result<config::degree_choice> degrees_by_prediction(const config::job_config& c, const host_tables& own,
                                                          const plan::cost_model* costs, const job::go_on& go_on) {
  if (own.whole != nullptr)
    return core::fail(
        core::error_kind::bad_input,
        "parallel: auto cannot be combined with a host program's own tables, which were made for certain degrees; give "
        "the degrees");
  TROUPE_ASSIGN(const auto list, list_degrees(c, {}, costs, go_on));
  return chosen_degrees(list, c);
}

bool is_updated(const core::parameter_info& p) { return p.trainable && !p.of_teacher && !p.is_copy(); }

// Sets the members of `b` that follow from its configuration and the folders that it names, without a plan.
core::result<void> describe(blueprint& b, const host_tables& own, bool with_copies_of_tied) {
  const auto& c = *b.config;
  TROUPE_TRY(make_model_tables(b, own, with_copies_of_tied));
  std::optional<uint64_t> tokens;
  if (own.whole == nullptr) tokens = c.train_micro_batch_size_per_gpu * b.tensor.sequence.most_columns(b.sequence);
  TROUPE_ASSIGN(auto compression, choose_compression(c, *b.table, b.tensor, tokens));
  b.compression = std::make_shared<const chosen_compression>(std::move(compression));
  if (std::ranges::none_of(b.tensor.whole->parameters, is_updated))
    return core::fail(core::error_kind::bad_input,
                      "parameter_groups: every parameter is frozen, there is nothing to train");
  TROUPE_ASSIGN(auto optimizer, make_optimizer_groups(c, *b.tensor.whole));
  b.optimizer = std::make_shared<const optimizer_groups>(std::move(optimizer));
  return {};
}

bool copies_tied(const plan::plan_options& trains) { return trains.gradients.tied == plan::tied_gradients::per_use; }

}  // namespace

core::result<void> check_described(std::shared_ptr<const config::job_config> config) {
  blueprint b;
  b.config = std::move(config);
  return describe(b, {}, copies_tied(options_from(*b.config, plan::mode::train)));
}

core::result<blueprint> make_blueprint(std::shared_ptr<const config::job_config> config, const host_tables& own,
                                       const plan::cost_model* costs, const blueprint_watch& watch) {
  blueprint b;
  b.config = std::move(config);
  if (!b.config->open_degrees.empty()) {
    TROUPE_ASSIGN(auto degrees, degrees_by_prediction(*b.config, own, costs, watch.go_on));
    b.config = std::make_shared<const config::job_config>(b.config->with(degrees));
  }
  const auto& c = *b.config;
  auto trains = options_from(c, plan::mode::train);
  TROUPE_TRY(describe(b, own, copies_tied(trains)));
  set_scaling(b);
  trains.updates.rules = updates_of(*b.optimizer, *b.tensor.whole);
  trains.saving = {.on = c.checkpoint.is_on(),
                   .staging_bytes = c.checkpoint.staging_bytes,
                   .writers = writers_of(c),
                   .machines = std::max<uint32_t>(1, static_cast<uint32_t>(c.cluster.hosts.size()))};
  TROUPE_ASSIGN(auto pipeline, choose_pipeline(c, *b.table, trains));
  b.pipeline = std::move(pipeline);
  trains.pipeline = b.pipeline.training;
  // The sizes chosen below must suffice in every phase of compression, so all techniques count as begun.
  trains.compressed = b.compression->after(UINT64_MAX);
  b.costs = costs != nullptr ? *costs : usual_costs(c);
  TROUPE_ASSIGN(auto sized, with_open_sizes(c, b.table, trains, b.costs, watch.go_on));
  if (b.compression->phases().size() == 1) {
    TROUPE_ASSIGN(auto order, leave_updates_open(c, b.table, std::move(trains), b.costs, watch.go_on, sized));
    b.early = std::move(order);
  }
  for (size_t which = 0; which < plan::num_plan_choices; ++which)
    b.options[which] = options_of(b, static_cast<plan::plan_choice>(which), sized);
  TROUPE_TRY(use_passes(b, watch.go_on));
  TROUPE_TRY(write_plans(b, watch));
  TROUPE_TRY(size_phases(b, watch));
  if (b.early.worth > 0) TROUPE_TRY(make_room_for_early_updates(b));
  TROUPE_TRY(make_room_for_counts(b));
  make_room_for_inputs(b);
  for (const auto& p : b.train.plans())
    for (const auto& x : p->instructions)
      b.longest_instruction_s = std::max(b.longest_instruction_s, plan::predicted_seconds(*p, x, b.costs));
  if (c.stall_after_s > 0) b.stall_after_s = c.stall_after_s;
  return b;
}

}  // namespace troupe::job
