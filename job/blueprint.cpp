#include "job/blueprint.hpp"

#include <algorithm>

#include "core/math.hpp"
#include "core/processor.hpp"
#include "core/tied_copies.hpp"
#include "job/clean.hpp"
#include "job/configured_model.hpp"
#include "job/degrees.hpp"
#include "job/distillation.hpp"
#include "job/layer_reduction.hpp"
#include "job/mask_scores.hpp"
#include "job/open_sizes.hpp"
#include "models/table/row_tiles.hpp"
#include "plan/choose/batch_need.hpp"
#include "plan/choose/cost.hpp"
#include "plan/layout/activation_extents.hpp"
#include "storage/memory/memory_room.hpp"

namespace troupe::job {
namespace {

/// Whether integers can hold the sizes of batches, and this machine the plans. Whether a run fits is not checked here:
/// a job of thousands of ranks is planned on one machine and runs on others.
core::result<void> plannable(const config::job_config& c, const core::model_table& one_row, uint64_t columns) {
  constexpr uint64_t most = uint64_t{1} << 62;
  const auto memory = storage::all_memory().value_or(storage::memory_room{most, "the machine"});
  plan::batch_request batches{.rows = c.train_micro_batch_size_per_gpu,
                              .columns = columns,
                              .accumulation = c.gradient_accumulation_steps,
                              .ranks = c.parallel.data};
  if (plan::need_of(one_row, batches).total() < double(most)) {
    batches.rows = 1;
    batches.ranks = std::min(batches.ranks, proved_ranks_max);
    if (plan::need_of(one_row, batches).plans <= double(memory.bytes)) return {};
  }
  const auto refusal = plan::refusal_of(one_row, batches, memory.bytes, memory.where + "'s memory");
  if (refusal.key.empty()) return {};
  return core::fail(core::error_kind::bad_input, refusal.key + ": " + refusal.text);
}

// Of the widest of a rank's MLPs: bits do not depend on how many rows a tile has.
void set_tiles(const config::job_config& c, uint64_t rows, const models::tensor_split& split, models::model_spec& to) {
  const uint64_t element_bytes = core::size_of(c.parameter_dtype());
  to.head_tile_rows = models::tile_rows_for(to, rows, element_bytes, c.row_tile_bytes);
  to.mlp_tile_rows =
      models::mlp_tile_rows_for(to, models::widest_inner(to, split), rows, element_bytes, c.mlp_tile_bytes);
}

core::result<core::model_table> read_table(blueprint& b) {
  const auto& c = *b.config;
  auto model = read_model(c);
  if (!model) return core::fail(model.error());
  b.spec = std::move(model->spec);
  b.sequence = model->sequence;
  const uint64_t element_bytes = core::size_of(c.parameter_dtype());
  set_tiles(c, c.train_micro_batch_size_per_gpu * b.sequence, {}, b.spec);
  const auto one_row = models::make_model_table(b.spec, 1, b.sequence, element_bytes);
  if (auto ok = plannable(c, one_row, b.sequence); !ok) return core::fail(ok.error());
  auto split = choose_split(c, b.spec, one_row, b.sequence);
  if (!split) return core::fail(split.error());
  b.tensor.split = std::move(split->split);
  b.tensor.origins = std::move(split->origins);
  const auto sequence = choose_sequence(c, b.spec, b.tensor.split, b.sequence);
  if (!sequence) return core::fail(sequence.error());
  b.tensor.sequence = *sequence;
  set_tiles(c, c.train_micro_batch_size_per_gpu * sequence->most_columns(b.sequence), b.tensor.split, b.spec);
  // What a teacher says of a row is wanted beside the model's own logits of it, panel by panel.
  if (c.distillation.enabled && b.spec.head_tile_rows == 0) b.spec.head_tile_rows = models::panel_rows;
  auto teaching = choose_teaching(c, b.spec, b.sequence);
  if (!teaching) return core::fail(teaching.error());
  b.teaching = std::move(*teaching);
  return models::make_model_table(b.spec, c.train_micro_batch_size_per_gpu, b.sequence, element_bytes);
}

core::model_table taught_table(const blueprint& b, core::model_table own) {
  if (!b.teaching) return own;
  const auto& c = *b.config;
  return models::with_teacher(std::move(own), *b.teaching, c.train_micro_batch_size_per_gpu, b.sequence,
                              core::size_of(c.parameter_dtype()));
}

core::model_table trained_as(const core::model_table& whole, core::model_table out) {
  for (size_t q = 0; q < out.parameters.size(); ++q) out.parameters[q].trainable = whole.parameters[q].trainable;
  return out;
}

// What a rank computes with, of the model that `whole` is.
core::model_table own_table(const blueprint& b, const core::model_table& whole) {
  const auto& c = *b.config;
  const uint64_t rows = c.train_micro_batch_size_per_gpu, element_bytes = core::size_of(c.parameter_dtype());
  auto own = models::make_model_table(b.spec, rows, b.sequence, element_bytes, b.tensor.split, b.tensor.sequence);
  if (b.teaching)
    own = models::with_teacher(std::move(own), *b.teaching, rows, b.sequence, element_bytes, b.teaching->split,
                               b.tensor.sequence);
  return trained_as(whole, std::move(own));
}

// Copies are cut as what they repeat.
core::tp_plan with_copies(const core::model_table& whole, core::tp_plan cut) {
  for (auto q = static_cast<uint32_t>(cut.parameters.size()); q < whole.parameters.size(); ++q)
    cut.parameters.push_back(whole.parameters[q].is_copy() ? cut.parameters[whole.original(q)] : core::parameter_cut());
  return cut;
}

// The parameters of `whole` have their groups, so that those of a rank's table have them, too.
void cut_table(blueprint& b, const host_tables& host, core::model_table whole, bool copies) {
  const bool cuts = b.tensor.split.degree > 1 || b.tensor.sequence.degree > 1;
  auto own = !cuts ? core::model_table() : host.local != nullptr ? trained_as(whole, *host.local) : own_table(b, whole);
  if (cuts) add_scores_of(whole, own);
  if (copies) whole = core::with_copies(std::move(whole));
  b.tensor.cut = host.cut != nullptr ? with_copies(whole, *host.cut)
                                     : models::tp_plan_of(whole, b.tensor.split,
                                                          b.teaching ? b.teaching->split : models::tensor_split());
  b.tensor.whole = std::make_shared<const core::model_table>(std::move(whole));
  if (cuts && copies) own = core::with_copies(std::move(own));
  b.table = cuts ? std::make_shared<const core::model_table>(std::move(own)) : b.tensor.whole;
}

void set_scaling(blueprint& b) {
  const auto& c = *b.config;
  const auto& f = c.fp16;
  b.loss_scale = {f.enabled ? f.loss_scale : 1.0, f.initial_scale_power, f.loss_scale_window, f.hysteresis,
                  f.consecutive_hysteresis,       f.min_loss_scale};
  b.rules.clip = c.gradient_clipping;
  // In fp32, as the fabric applies it; the mean divides by exactly the same number.
  b.rules.input_scale =
      static_cast<float>(c.prescale_gradients ? 1.0 / c.parallel.data : 1.0 / c.gradient_predivide_factor);
  b.rules.skip_overflow = c.skips_overflow();
}

plan::plan_options options_of(const blueprint& b, plan::plan_choice which, const plan::plan_options& sized) {
  const auto& c = *b.config;
  auto options = options_from(c, plan::mode_of(which));
  options.updates.rules = updates_of(*b.optimizer, *b.tensor.whole);
  options.saving.staging_bytes = c.checkpoint.staging_bytes;
  take_sizes(sized, options);
  // One layout of the swap file for all kinds of steps: theirs have one micro-batch, where buckets would not stay.
  if (plan::mode_of(which) != plan::mode::train && sized.buckets_stay()) options.tiers.swap_gradients = false;
  // A host may save at any time; the budget has to cover saves only if the configuration has them.
  if (plan::saves(which) && !c.checkpoint.is_on()) options.memory_budget_bytes = 0;
  options.saving.on = plan::saves(which);
  options.pipeline = b.pipeline.of(options.mode);
  options.compressed = b.compression->after(0);
  if (options.mode == plan::mode::evaluate && b.pipeline.is_cut()) {
    options.accumulation = options.pipeline.table.micro_batches;
    options.gradients.sum_micro_first = options.stage <= 1;  // states lie as they do for one micro-batch
  }
  return options;
}

void note_pools(const step_plans& plans, std::vector<plan::pool_sizes>& all) {
  all.resize(plans.ranks());
  for (uint32_t r = 0; r < plans.ranks(); ++r)
    for (uint32_t k = 0; k < plan::num_pools; ++k)
      all[r].bytes[k] = std::max(all[r].bytes[k], plans.like(r).pool_bytes[k]);
}

// Windows onto files cannot grow between steps, and passes may let inputs wait there that stay at first.
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

/// Passes over a phase to come, as far as they do not depend on what will be measured.
core::result<void> size_passes(blueprint& b, uint64_t from) {
  const auto entries = b.config->compile.entries();
  if (entries.empty()) return {};
  blueprint later = b;
  if (auto ok = enter_phase(later, from); !ok) return ok;
  for (const auto& entry : entries) {
    auto changed = change_steps(later, wish_of(*b.config, entry));
    if (!changed) return core::fail(changed.error());
    later.pools = b.pools = std::move(changed->pools);
  }
  return {};
}

// Plans of phases to come: what they need is known now, and they are refused now.
core::result<void> size_phases(blueprint& b, const blueprint_watch& watch) {
  for (const uint64_t from : b.compression->phases()) {
    if (from == 0) continue;
    for (plan::plan_options options : b.options) {
      options.compressed = b.compression->after(from);
      const auto plans = step_plans::write(b.table, options, watch.go_on);
      if (!plans) return core::fail(plans.error());
      note_pools(*plans, b.pools);
      if (auto ok = plans->prove(); !ok) return ok;
    }
    if (auto ok = size_passes(b, from); !ok) return ok;
  }
  return {};
}

// Writes plans of every kind, so that nothing is refused in the middle of a run; only training's are kept.
core::result<void> write_plans(blueprint& b, const blueprint_watch& watch) {
  for (size_t which = 0; which < plan::num_plan_choices; ++which) {
    auto plans = step_plans::write(b.table, b.options[which], watch.go_on);
    if (!plans) return core::fail(plans.error());
    note_pools(*plans, b.pools);
    const bool trains = static_cast<plan::plan_choice>(which) == plan::plan_choice::train;
    if (trains) b.train = *plans;
    if (trains && watch.sized)
      if (auto ok = watch.sized(b); !ok) return ok;
    if (auto ok = plans->prove(); !ok) return ok;
  }
  return {};
}

plan::plan_options& options_for(blueprint& b, plan::plan_choice which) { return b.options[static_cast<size_t>(which)]; }

// Those of the first step; later ones are chosen when they are there.
core::result<void> use_passes(blueprint& b, const job::go_on& go_on) {
  const auto& c = *b.config;
  // A step that saves needs more, where the configuration has any.
  b.plain = options_for(b, c.checkpoint.is_on() ? plan::plan_choice::train_saving : plan::plan_choice::train);
  const auto entries = c.compile.entries();
  if (entries.empty() || entries.front().step > 0) return {};
  auto compiled =
      compile_step(c, b.table, b.plain, wish_of(c, entries.front()), b.costs, choice_time::before_a_run, {}, go_on);
  if (!compiled) return core::fail(compiled.error());
  for (const auto which : {plan::plan_choice::train, plan::plan_choice::train_saving})
    take_passes(compiled->chosen.options, options_for(b, which));
  // States have one place for the whole run, whatever a step does and whatever passes change later.
  b.plain.tiers.ratio = compiled->chosen.options.tiers.ratio;
  for (auto& options : b.options) options.tiers.ratio = b.plain.tiers.ratio;
  b.compiled = std::move(*compiled);
  return {};
}

}  // namespace

plan::tier_options tiers_from(const config::job_config& c) {
  const auto tier_of = [](config::offload_device d) {
    return d == config::offload_device::nvme  ? plan::tier::nvme
           : d == config::offload_device::cpu ? plan::tier::cpu
                                              : plan::tier::device;
  };
  const auto& optimizer = c.zero_optimization.offload_optimizer;
  const auto& param = c.zero_optimization.offload_param;
  plan::tier_options t;
  t.optimizer = tier_of(optimizer.device);
  t.parameters = tier_of(param.device);
  t.swap_gradients = c.swap_gradients == config::swap_choice::always;
  t.activations = tier_of(c.offload_activations);
  if (c.offload_activations_units) t.activation_units = static_cast<uint32_t>(*c.offload_activations_units);
  t.ratio = optimizer.ratio;
  t.read_ahead = optimizer.pipeline_read;
  t.write_behind = optimizer.pipeline_write;
  t.state_slots = 1 + (t.read_ahead ? 1 : 0) + (t.write_behind ? 1 : 0);
  if (optimizer.buffer_count_given)
    t.state_slots = std::max(t.state_slots, static_cast<uint32_t>(optimizer.buffer_count / 4));
  if (param.buffer_count_given) t.parameter_slots = static_cast<uint32_t>(std::max<uint64_t>(1, param.buffer_count));
  t.resident_parameters = param.max_in_cpu;
  t.checksums = c.swap_checksums;
  return t;
}

plan::late_updates late_from(const config::zenflow_section& z) {
  plan::late_updates out;
  if (!z.enabled) return out;
  out.share = z.topk_ratio;
  out.update_interval = z.update_interval.value_or(plan::default_update_interval);
  // Columns are chosen when no gradients are deferred.
  out.select_interval =
      core::round_up(z.select_interval.value_or(plan::default_selections * out.update_interval), out.update_interval);
  out.warm_up = z.full_warm_up_rounds;
  return out;
}

plan::plan_options options_from(const config::job_config& c, plan::mode mode) {
  const auto& z = c.zero_optimization;
  plan::plan_options o;
  o.mode = mode;
  o.mesh = c.parallel.mesh();
  o.stage = z.stage;
  o.accumulation = mode == plan::mode::train ? static_cast<uint32_t>(c.gradient_accumulation_steps) : 1;
  // Summing ranks first keeps stages 2 and 3 at their memory promise; summing micro-batches first moves fewer bytes.
  o.gradients.sum_micro_first =
      c.order == config::gradient_order::automatic ? z.stage <= 1 : c.order == config::gradient_order::per_step;
  const bool per_use =
      c.tied == config::tied_gradients::automatic ? c.parallel.pipeline > 1 : c.tied == config::tied_gradients::per_use;
  o.gradients.tied = per_use ? plan::tied_gradients::per_use : plan::tied_gradients::in_bucket;
  o.overlap = z.overlap_comm;
  o.gradients.reduce_scatter = z.reduce_scatter;
  o.uneven = z.round_robin_gradients ? plan::uneven_blocks::in_turn : plan::uneven_blocks::to_least;
  o.recompute = c.activation_checkpointing.enabled && !c.activation_checkpointing.selective;
  if (c.activation_checkpointing.enabled && c.activation_checkpointing.selective) o.light_before.unit = UINT32_MAX;
  o.repeat_exchanges = o.recompute && c.activation_checkpointing.partition_activations && c.parallel.tensor > 1;
  o.overlap_exchanges = c.parallel.overlap_comm;
  o.exchange_pieces = c.parallel.exchange_pieces;
  o.gradients.reduce_bucket = z.reduce_bucket_size;
  o.updates.allgather_bucket = z.allgather_bucket_size == 0 ? UINT64_MAX : z.allgather_bucket_size;
  o.updates.sub_group = z.sub_group_size;
  o.gathering.prefetch_bucket = z.stage3_prefetch_bucket_size;
  o.gathering.persistence_threshold = z.stage3_param_persistence_threshold;
  o.gathering.model_persistence_threshold = z.stage3_model_persistence_threshold;
  o.gathering.max_live = z.stage3_max_live_parameters;
  o.gathering.max_reuse_distance = z.stage3_max_reuse_distance;
  o.gathering.near = static_cast<uint32_t>(std::min<uint64_t>(z.zero_hpz_partition_size, UINT32_MAX));
  o.types.parameter = c.parameter_dtype();
  o.types.communication = c.communication_dtype();
  o.types.accumulation = c.accumulation_dtype();
  o.tiers = tiers_from(c);
  o.updates.speculate = z.offload_optimizer.speculates;
  o.updates.may_skip = c.skips_overflow();
  o.updates.may_clip = c.gradient_clipping > 0;
  o.updates.late = late_from(z.zenflow);
  o.memory_budget_bytes = c.host_memory_budget / std::max(1U, c.parallel.ranks());
  return o;
}

plan::cost_model usual_costs(const config::job_config& c) {
  return plan::default_costs(c.parameter_dtype(), core::multiplies_natively(c.parameter_dtype()));
}

core::result<step_plans> blueprint::write(plan::plan_choice which, const job::go_on& more) const {
  auto out = step_plans::write(table, options[static_cast<size_t>(which)], more);
  if (!out) return out;
  if (auto ok = out->prove(); !ok) return core::fail(ok.error());
  return out;
}

bool is_phase_of(const blueprint& b, uint64_t updates) {
  return b.options[static_cast<size_t>(plan::plan_choice::train)].compressed == b.compression->after(updates);
}

core::result<void> enter_phase(blueprint& b, uint64_t updates) {
  auto options = b.options[static_cast<size_t>(plan::plan_choice::train)];
  options.compressed = b.compression->after(updates);
  auto plans = step_plans::write(b.table, options);
  if (!plans) return core::fail(plans.error());
  for (auto& each : b.options) each.compressed = options.compressed;
  b.plain.compressed = std::move(options.compressed);
  b.train = std::move(*plans);
  return {};
}

core::result<changed_steps> change_steps(const blueprint& b, const pass_wish& wish, const measured_run& measured) {
  auto compiled = compile_step(*b.config, b.table, b.plain, wish, b.costs, choice_time::between_steps, measured);
  if (!compiled) return core::fail(compiled.error());
  changed_steps out;
  out.train = b.options[static_cast<size_t>(plan::plan_choice::train)];
  out.train_saving = b.options[static_cast<size_t>(plan::plan_choice::train_saving)];
  out.pools = b.pools;
  for (auto* options : {&out.train_saving, &out.train}) {
    take_passes(compiled->chosen.options, *options);
    auto plans = step_plans::write(b.table, *options);
    if (!plans) return core::fail(plans.error());
    note_pools(*plans, out.pools);
    out.plans = std::move(*plans);
    if (options == &out.train) break;
    if (auto ok = out.plans.prove(); !ok) return core::fail(ok.error());
  }
  auto ranks = out.plans.proved();
  if (!ranks) return core::fail(ranks.error());
  out.ranks = std::move(*ranks);
  out.compiled = std::move(*compiled);
  return out;
}

core::result<void> use_chosen_passes(blueprint& b, const plan::plan_options& chosen) {
  for (const auto which : {plan::plan_choice::train_saving, plan::plan_choice::train}) {
    plan::plan_options options = options_for(b, which);
    take_passes(chosen, options);
    auto now = step_plans::write(b.table, options);
    if (!now) return core::fail(now.error());
    note_pools(*now, b.pools);
    if (auto ok = now->prove(); !ok) return ok;
    for (const uint64_t from : b.compression->phases()) {
      plan::plan_options later = options;
      later.compressed = b.compression->after(from);
      const auto plans = step_plans::write(b.table, later);
      if (!plans) return core::fail(plans.error());
      note_pools(*plans, b.pools);
    }
    options_for(b, which) = std::move(options);
    if (which == plan::plan_choice::train) b.train = std::move(*now);
  }
  return {};
}

namespace {

// Without running anything: by the cost model, and steps that the run's folder has.
core::result<config::degree_choice> degrees_by_prediction(const config::job_config& c, const host_tables& own,
                                                          const plan::cost_model* costs, const job::go_on& go_on) {
  if (own.whole != nullptr)
    return core::fail(core::error_kind::bad_input,
                      "parallel: wanted degrees beside a host's own tables, which are of some degrees, got auto");
  const auto list = list_degrees(c, {}, costs, go_on);
  if (!list) return core::fail(list.error());
  return chosen_degrees(*list, c);
}

}  // namespace

core::result<blueprint> make_blueprint(std::shared_ptr<const config::job_config> config, const host_tables& own,
                                       const plan::cost_model* costs, const blueprint_watch& watch) {
  blueprint b;
  b.config = std::move(config);
  if (!b.config->open_degrees.empty()) {
    auto degrees = degrees_by_prediction(*b.config, own, costs, watch.go_on);
    if (!degrees) return core::fail(degrees.error());
    b.config = std::make_shared<const config::job_config>(b.config->with(*degrees));
  }
  const auto& c = *b.config;
  core::model_table table;
  if (own.whole != nullptr) {
    if (c.distillation.enabled)
      return core::fail(core::error_kind::bad_input,
                        "distillation.enabled: wanted false beside a host's own modules, with which it does not go "
                        "together yet, got true");
    b.sequence = 1;
    b.tensor.split.degree = c.parallel.tensor;
    table = *own.whole;
    b.tensor.origins.resize(table.parameters.size(), cut_origin::host);
    if (auto ok = plannable(c, table, b.sequence); !ok) return core::fail(ok.error());
  } else {
    auto read = read_table(b);
    if (!read) return core::fail(read.error());
    table = std::move(*read);
  }
  if (auto ok = freeze(c, table); !ok) return core::fail(ok.error());
  if (auto ok = check_layer_reduction(c, table); !ok) return core::fail(ok.error());
  if (auto ok = add_scores(c, table); !ok) return core::fail(ok.error());
  if (own.whole == nullptr)
    if (auto ok = check_related(c, table); !ok) return core::fail(ok.error());
  table = taught_table(b, std::move(table));
  if (!b.tensor.origins.empty()) b.tensor.origins.resize(table.parameters.size(), b.tensor.origins.back());
  auto trains = options_from(c, plan::mode::train);
  cut_table(b, own, std::move(table), trains.gradients.tied == plan::tied_gradients::per_use);
  if (auto ok = check_exchange_pieces(c, *b.table); !ok) return core::fail(ok.error());
  std::optional<uint64_t> tokens;
  if (own.whole == nullptr) tokens = c.train_micro_batch_size_per_gpu * b.tensor.sequence.most_columns(b.sequence);
  auto compression = choose_compression(c, *b.table, b.tensor, tokens);
  if (!compression) return core::fail(compression.error());
  b.compression = std::make_shared<const chosen_compression>(std::move(*compression));
  auto optimizer = make_optimizer_groups(c, *b.tensor.whole);
  if (!optimizer) return core::fail(optimizer.error());
  b.optimizer = std::make_shared<const optimizer_groups>(std::move(*optimizer));
  set_scaling(b);
  trains.updates.rules = updates_of(*b.optimizer, *b.tensor.whole);
  trains.saving.staging_bytes = c.checkpoint.staging_bytes;
  trains.saving.on = c.checkpoint.is_on();
  auto pipeline = choose_pipeline(c, *b.table, trains);
  if (!pipeline) return core::fail(pipeline.error());
  b.pipeline = std::move(*pipeline);
  trains.pipeline = b.pipeline.training;
  trains.compressed = b.compression->after(UINT64_MAX);  // sizes hold in every phase
  b.costs = costs != nullptr ? *costs : usual_costs(c);
  auto sized = with_open_sizes(c, b.table, std::move(trains), b.costs, watch.go_on);
  if (!sized) return core::fail(sized.error());
  for (size_t which = 0; which < plan::num_plan_choices; ++which)
    b.options[which] = options_of(b, static_cast<plan::plan_choice>(which), *sized);
  if (auto ok = use_passes(b, watch.go_on); !ok) return core::fail(ok.error());
  if (auto ok = write_plans(b, watch); !ok) return core::fail(ok.error());
  if (auto ok = size_phases(b, watch); !ok) return core::fail(ok.error());
  make_room_for_inputs(b);
  for (const auto& p : b.train.plans())
    for (const auto& x : p->instructions)
      b.longest_instruction_s = std::max(b.longest_instruction_s, plan::predicted_seconds(*p, x, b.costs));
  if (c.stall_after_s > 0) b.stall_after_s = c.stall_after_s;
  return b;
}

}  // namespace troupe::job
