#include "job/step/step_options.hpp"

#include <algorithm>

#include "core/math.hpp"

namespace troupe::job {
namespace {

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
  t.apart = c.device != core::device_kind::cpu;
  return t;
}

plan::late_updates late_from(const config::zenflow_section& z) {
  plan::late_updates out;
  if (!z.enabled) return out;
  out.share = z.topk_ratio;
  out.update_interval = z.update_interval.value_or(plan::default_update_interval);
  // Rounds the interval up to a multiple of update_interval, because new columns are selected only in steps in which no
  // gradients of other columns are waiting for their update.
  out.select_interval =
      core::round_up(z.select_interval.value_or(plan::default_selections * out.update_interval), out.update_interval);
  out.warm_up = z.full_warm_up_rounds;
  return out;
}

}  // namespace

plan::plan_options options_from(const config::job_config& c, plan::mode mode) {
  const auto& z = c.zero_optimization;
  plan::plan_options o;
  o.mode = mode;
  o.mesh = c.parallel.mesh();
  o.stage = z.stage;
  o.accumulation = mode == plan::mode::train ? static_cast<uint32_t>(c.gradient_accumulation_steps) : 1;
  // Stages 2 and 3 sum over ranks first, because a rank then stores only its own part of the sums; stages 0 and 1 sum
  // over micro-batches first, which sends fewer bytes.
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
  o.tiers.two_places = o.tiers.swaps() && o.updates.speculate && o.updates.may_undo();
  o.updates.late = late_from(z.zenflow);
  o.memory_budget_bytes = c.host_memory_budget / std::max(1U, c.parallel.ranks());
  o.device_budget_bytes = c.cuda.memory_limit / std::max(1U, c.parallel.ranks());
  return o;
}

}  // namespace troupe::job
