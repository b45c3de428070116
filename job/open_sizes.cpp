#include "job/open_sizes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/math.hpp"
#include "core/text.hpp"
#include "job/missed_budget.hpp"
#include "plan/layout/buckets.hpp"
#include "plan/memory_places.hpp"

namespace troupe::job {
namespace {
/// Number of sub-groups of a rank if updates run during backward and the configuration leaves their size open: most of
/// the updates are then done before the last gradient arrives.
constexpr uint64_t speculative_sub_groups = 16;
/// Number of publish sets (parameters that one all-gather sends to all ranks after their update) of a step at stages 1
/// and 2: one set is sent while the next is updated, so only the sending of the last set is not hidden.
constexpr uint64_t published_parts = 8;

/// Returns the number of parameter elements of one pipeline stage, assuming that all stages are equal.
uint64_t elements_of_a_rank(const core::model_table& table, const plan::plan_options& o) {
  return core::div_up(table.numel(), o.mesh.degree(core::axis::pipeline));
}

/// Sets the sizes of buckets, sub-groups and publish sets with which reducing gradients overlaps backward, and sending
/// updated parameters overlaps updates.
void overlap_communication(const config::zero_section& z, const core::model_table& table, plan::plan_options& o) {
  const bool meets = o.data() > 1 && o.stage <= 2;
  if (!z.reduce_bucket_size_given && meets) {
    o.gradients.reduce_bucket = plan::segment_bucket(table);
    o.gradients.buckets_follow_units = true;
  } else if (!z.reduce_bucket_size_given && !o.buckets_stay()) {
    o.gradients.reduce_bucket = plan::unit_bucket(table);
  }
  const auto by_elements = [](const plan::parameter_update& u) { return u.need == plan::update_need::elements; };
  if (!meets || o.stage == 0 || z.sub_group_size_given || z.allgather_bucket_size_given || o.updates.late.on() ||
      !std::ranges::all_of(o.updates.rules, by_elements))
    return;
  o.updates.allgather_bucket =
      std::max(plan::unit_bucket_min, core::div_up(elements_of_a_rank(table, o), published_parts));
  o.updates.sub_group = std::max<uint64_t>(1, o.updates.allgather_bucket / o.shards());
}
/// Limits the staging memory for checkpoints to an eighth of the memory budget, unless the configuration sets it, so
/// that checkpoints are not the reason why a run exceeds the budget.
void fit_staging(const config::job_config& c, plan::plan_options& o) {
  constexpr uint64_t share = 8, grain = 4096;
  if (c.checkpoint.staging_bytes_given || o.memory_budget_bytes == 0 || !o.saving.on) return;
  const uint64_t most = o.memory_budget_bytes / share / grain * grain;
  o.saving.staging_bytes = std::min(o.saving.staging_bytes, std::max(most, config::staging_bytes_min));
}
plan::fit_request fitting(const config::job_config& c, std::shared_ptr<const core::model_table> table,
                          const plan::plan_options& trains, const plan::cost_model& costs,
                          const std::function<core::result<void>()>& go_on) {
  plan::fit_request request;
  request.table = std::move(table);
  request.options = trains;
  request.open = open_choices_of(c);
  request.limits.states = trains.memory_budget_bytes;
  request.limits.device = trains.device_budget_bytes;
  request.costs = costs;
  request.go_on = go_on;
  return request;
}
}  // namespace

plan::open_choices open_choices_of(const config::job_config& c) {
  const auto& z = c.zero_optimization;
  const bool limited = c.host_memory_budget > 0;
  plan::open_choices out;
  out.sub_group = !z.sub_group_size_given;
  // Small gradient buckets cost time, so their size is open only if memory is limited or gradients are always swapped.
  out.bucket = !z.reduce_bucket_size_given && (limited || c.swap_gradients == config::swap_choice::always);
  out.state_slots = !z.offload_optimizer.buffer_count_given && !z.offload_optimizer.pipeline_given;
  out.parameter_slots = !z.offload_param.buffer_count_given;
  out.gradient_slots = true;
  out.gathering = limited;
  out.swap_gradients = c.swap_gradients == config::swap_choice::automatic;
  out.resident_parameters = !z.offload_param.max_in_cpu_given;
  out.ratio = limited && z.stage == 3 && z.offload_optimizer.ratio == 1;
  return out;
}

core::result<plan::plan_options> with_open_sizes(const config::job_config& c,
                                                 std::shared_ptr<const core::model_table> table,
                                                 plan::plan_options trains, const plan::cost_model& costs,
                                                 const std::function<core::result<void>()>& go_on) {
  fit_staging(c, trains);
  // Chooses bucket sizes for the overlap of communication. Without overlap every bucket is a separate wait, which costs
  // a few percent of a small model's step. With overlap, gradients arrive while backward continues, and the states that
  // they update can be written to files meanwhile.
  if (trains.overlap) overlap_communication(c.zero_optimization, *table, trains);
  if (!trains.tiers.swaps()) {
    if (trains.updates.speculate && !c.zero_optimization.sub_group_size_given)
      trains.updates.sub_group =
          std::max<uint64_t>(1, elements_of_a_rank(*table, trains) / trains.shards() / speculative_sub_groups);
    return trains;
  }
  TROUPE_ASSIGN(auto found, plan::choose(fitting(c, table, trains, costs, go_on)));
  if (!found.fits) {
    const auto& unit = plan::largest_unit(*table);
    const auto missed =
        missed_budget_of(c, {.states = trains.memory_budget_bytes, .device = trains.device_budget_bytes}, found);
    return core::fail(
        core::error_kind::bad_input,
        fmt::format("{}: wanted at least {} bytes for {} ranks with these tiers, got {}; the largest unit is {} with "
                    "{} of parameters{}",
                    missed.key, missed.needed, trains.ranks(), missed.given, unit.name,
                    core::human_bytes(plan::elements_of(*table, unit) * core::size_of(trains.types.parameter)),
                    found.memory.staging > 0 ? "; checkpoints take " + core::human_bytes(found.memory.staging) +
                                                   " of each rank (checkpoint.staging_bytes)"
                                             : ""));
  }
  take_sizes(found.options, trains);
  return trains;
}

core::result<uint64_t> least_budget(const config::job_config& config, std::shared_ptr<const core::model_table> table,
                                    plan::plan_options trains, const plan::cost_model& costs,
                                    const std::function<core::result<void>()>& go_on) {
  config::job_config limited = config;
  // No step needs as little as 1 byte, so plan::choose returns the settings that need least memory.
  limited.host_memory_budget = trains.memory_budget_bytes = 1;
  fit_staging(limited, trains);
  TROUPE_ASSIGN(const auto found, plan::choose(fitting(limited, std::move(table), trains, costs, go_on)));
  return plan::budgeted_bytes(found.memory, found.options.tiers) * trains.ranks();
}

void take_sizes(const plan::plan_options& chosen, plan::plan_options& options) {
  options.saving.staging_bytes = chosen.saving.staging_bytes;
  options.tiers = chosen.tiers;
  options.updates.sub_group = chosen.updates.sub_group;
  options.gradients.reduce_bucket = chosen.gradients.reduce_bucket;
  options.gradients.buckets_follow_units = chosen.gradients.buckets_follow_units;
  options.updates.allgather_bucket = chosen.updates.allgather_bucket;
  options.gathering = chosen.gathering;
}

}  // namespace troupe::job
