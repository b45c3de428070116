#include "plan/layout/sets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "core/math.hpp"
#include "plan/layout/buckets.hpp"
#include "plan/layout/communicators.hpp"
#include "plan/layout/layout.hpp"
#include "plan/layout/matrices.hpp"
#include "plan/layout/own.hpp"
#include "plan/layout/set_packer.hpp"
#include "plan/layout/ties.hpp"
#include "plan/stages.hpp"
#include "plan/vote_layout.hpp"

namespace troupe::plan {
namespace {

/// The buckets that a stage writes to if its backward is split. at_once: buckets that are written during the input
/// part, because the backward of their units is not split. with_weights: buckets that are written during the weight
/// part.
struct written_buckets {
  std::set<uint32_t> at_once, with_weights;
};

std::vector<written_buckets> buckets_of_stages(const job_layout& l) {
  std::vector<written_buckets> out(num_stages(l));
  const auto writes = contributions(*l.table);
  for (uint32_t q = 0; q < writes.size(); ++q)
    for (const auto& c : writes[q]) {
      auto& of_stage = out[l.stage_of_unit[c.unit]];
      (l.options.compressed.is_unsplit(c.unit) ? of_stage.at_once : of_stage.with_weights).insert(l.bucket_of[q]);
    }
  return out;
}

/// Computes job_layout::bucket_order. Requires a layout whose stages and buckets are made.
std::vector<std::vector<uint32_t>> bucket_orders(const job_layout& l) {
  if (l.options.pipeline.first_unit.empty()) return {};
  const auto buckets_of = buckets_of_stages(l);
  const size_t micros = l.options.accumulation;
  // [bucket * micros + micro]: number of gradients that have yet to be written to the bucket
  std::vector<uint32_t> missing(l.buckets.size() * micros, 0);
  for (const auto& stage : buckets_of)
    for (const auto* buckets : {&stage.at_once, &stage.with_weights})
      for (const uint32_t b : *buckets)
        for (size_t m = 0; m < micros; ++m) ++missing[b * micros + m];
  std::vector<std::vector<uint32_t>> out(l.buckets.size());
  for (const auto& order : l.options.pipeline.table.orders)
    for (const action& each : order)
      for_each_part(each, [&](const action& a) {
        const auto write = [&](const std::set<uint32_t>& buckets) {
          for (const uint32_t b : buckets)
            if (--missing[b * micros + a.micro] == 0) out[b].push_back(a.micro);
        };
        const bool whole = a.type == action_type::backward;
        if (whole || a.type == action_type::backward_input) write(buckets_of[a.stage].at_once);
        if (whole || a.type == action_type::backward_weight) write(buckets_of[a.stage].with_weights);
      });
  if (std::ranges::all_of(out, [](const auto& order) { return std::ranges::is_sorted(order); })) return {};
  return out;
}

// Chooses the parameters that remain gathered for the whole step: first the parameters of resident units, then small
// parameters until their elements add up to gather_options::model_persistence_threshold.
void choose_persistent(job_layout& l) {
  l.persistent.assign(l.table->parameters.size(), false);
  if (!l.gathers()) return;
  uint64_t total = 0;
  for (const uint32_t u : l.options.gathering.resident_units)
    for (const uint32_t q : l.table->units[u].parameters) l.persistent[q] = true;
  for (size_t q = 0; q < l.persistent.size(); ++q) {
    const uint64_t n = l.table->parameters[q].numel();
    if (l.persistent[q] || n > l.options.gathering.persistence_threshold ||
        n + total > l.options.gathering.model_persistence_threshold)
      continue;
    l.persistent[q] = true;
    total += n;
  }
}

void make_gather_sets(job_layout& l) {
  for (uint32_t u = 0; u < l.table->units.size(); ++u) {
    std::vector<uint32_t> members;
    for (uint32_t q : l.table->units[u].parameters)
      if (!l.persistent[q]) members.push_back(q);
    add_set(l, l.gather_sets, members, l.table->units[u].name, pipeline_of_unit(l, u));
  }
  for (uint32_t at = 0; at < l.options.mesh.degree(core::axis::pipeline); ++at) {
    std::vector<uint32_t> kept;
    for (uint32_t q = 0; q < l.persistent.size(); ++q)
      if (l.persistent[q] && l.pipeline_of[q] == at) kept.push_back(q);
    add_set(l, l.gather_sets, kept, "persistent parameters", at);
  }
}

// Makes the sets of the parameters that units read compressed, with their offsets in the units' slots.
core::result<void> make_compressed_sets(job_layout& l) {
  const auto& uses = l.options.compressed.weights;
  auto next = uses.begin();
  for (uint32_t u = 0; u < l.table->units.size(); ++u) {
    const auto& reads = l.table->units[u].parameters;
    std::vector<uint32_t> members;
    for (; next != uses.end() && next->unit == u && std::ranges::find(reads, next->parameter) != reads.end(); ++next)
      members.push_back(next->parameter);
    add_set(l, l.compressed, members, l.table->units[u].name, pipeline_of_unit(l, u));
  }
  if (next == uses.end()) return {};
  return core::fail(
      core::error_kind::bug,
      fmt::format("plan: wanted compressed parameters by unit, each read by it; got unit {}, parameter {}", next->unit,
                  next->parameter));
}

// Assigns each matrix to the rank that has the fewest elements to orthogonalise so far.
void make_matrix_sets(job_layout& l) {
  set_packer packer(l, l.matrix_sets, "matrices", l.options.updates.allgather_bucket / l.options.mesh.tensor_ranks());
  std::vector<std::vector<uint64_t>> load(l.full_elements.size(), std::vector<uint64_t>(matrix_ranks(l), 0));
  l.matrix_owner.assign(l.table->parameters.size(), none);
  for (uint32_t q = 0; q < l.table->parameters.size(); ++q) {
    if (l.need_of(q) != update_need::whole_matrix) continue;
    packer.add(q);
    auto& mine = load[l.pipeline_of[q]];
    const auto least = std::min_element(mine.begin(), mine.end());
    l.matrix_owner[q] = static_cast<uint32_t>(least - mine.begin());
    *least += shares_of(l, q) * l.table->parameters[q].numel();
  }
  packer.close();
}

void make_publish_sets(job_layout& l) {
  if (l.options.stage != 1 && l.options.stage != 2) return;
  set_packer packer(l, l.publish_sets, "publish", l.options.updates.allgather_bucket);
  for (uint32_t q = 0; q < l.table->parameters.size(); ++q)
    if (l.trains(q)) packer.add(q);
  packer.close();
}

core::result<void> cut_into_stages(job_layout& l) {
  const auto& first = l.options.pipeline.first_unit;
  const auto& table = l.options.pipeline.table;
  const uint32_t ranks = l.options.mesh.degree(core::axis::pipeline);
  const auto units = static_cast<uint32_t>(l.table->units.size());
  const auto refuse = [&](const std::string& what) {
    return core::fail(core::error_kind::bad_input, "parallel.pipeline: " + what);
  };
  l.stage_of_unit.assign(units, 0);
  if (first.empty()) {
    if (ranks == 1) return {};
    return refuse(fmt::format("wanted a cut of the model into stages for {} ranks, got none", ranks));
  }
  if (table.stages() != first.size() || table.ranks() != ranks || table.micro_batches != l.options.accumulation)
    return refuse(
        fmt::format("wanted a schedule of {} stages on {} ranks and {} micro-batches, got one of {}, {} and {}",
                    first.size(), ranks, l.options.accumulation, table.stages(), table.ranks(), table.micro_batches));
  if (first.front() != first_of_model(l) || first.back() >= units ||
      !std::ranges::is_sorted(first, std::less_equal<>()))
    return refuse(
        fmt::format("wanted stages that begin at different units of the model, which has {}, the first at unit {}, in "
                    "ascending order",
                    units, first_of_model(l)));
  for (uint32_t k = 0; k < first.size(); ++k) {
    const uint32_t end = k + 1 < first.size() ? first[k + 1] : units;
    std::fill(l.stage_of_unit.begin() + first[k], l.stage_of_unit.begin() + end, k);
    const auto computes = [&](uint32_t u) { return !l.table->units[u].segments.empty(); };
    bool any = false;
    for (uint32_t u = first[k]; u < end; ++u) any |= computes(u);
    if (!any) return refuse(fmt::format("stage {} computes nothing", k));
  }
  for (uint32_t u = 0; u < l.table->beside.size(); ++u) l.stage_of_unit[u] = l.stage_of_unit[l.table->beside[u]];
  return {};
}

// Places each parameter on the pipeline rank of its units. Units of several stages that read one parameter must be on
// one rank.
core::result<void> place_units(job_layout& l) {
  l.pipeline_of.assign(l.table->parameters.size(), none);
  for (uint32_t u = 0; u < l.table->units.size(); ++u)
    for (const uint32_t q : l.table->units[u].parameters) {
      const uint32_t here = pipeline_of_unit(l, u);
      if (l.pipeline_of[q] != none && l.pipeline_of[q] != here)
        return core::fail(core::error_kind::bad_input,
                          fmt::format("tied_gradients: {} is shared by units of pipeline ranks {} and {}: wanted "
                                      "per_use, or a pipeline.partition that keeps them on one rank, got in_bucket",
                                      l.table->parameters[q].name, l.pipeline_of[q], here));
      l.pipeline_of[q] = here;
    }
  std::ranges::replace(l.pipeline_of, none, 0U);  // parameters that no unit reads
  return {};
}

void place_parameters(job_layout& l) {
  const auto parameters = static_cast<uint32_t>(l.table->parameters.size());
  l.full_offset.assign(parameters, 0);
  for (uint32_t at = 0; at < l.options.mesh.degree(core::axis::pipeline); ++at) {
    std::vector<uint32_t> held;
    for (uint32_t q = 0; q < parameters; ++q)
      if (l.pipeline_of[q] == at) held.push_back(q);
    const parameter_set full = lay_out(*l.table, held, "all");
    l.full_elements.push_back(full.elements);
    for (const auto& x : full.parameters) l.full_offset[x.parameter] = x.offset;
  }
  uint64_t blocks = 0;
  for (uint32_t q = 0; q < parameters; ++q) {
    l.block_offset.push_back(l.is_copy(q) ? l.block_offset[l.table->original(q)] : blocks);
    blocks += blocks_of(l, q);
  }
  if (l.options.mode == mode::train) l.num_blocks = blocks;
}

// Chooses the gather sets whose slices are kept in memory as well as in the swap file: the sets of the first units
// come first, because they are read at the beginning of a step, when no computation overlaps with the reads.
void choose_cached(job_layout& l) {
  l.cached.assign(l.gather_sets.size(), false);
  uint64_t left = l.options.tiers.resident_parameters;
  if (l.options.tiers.parameters != tier::nvme || left == 0) return;
  std::vector<rank_offsets> all;
  for (uint32_t r = 0; r < l.options.ranks(); ++r) all.push_back(offsets_of(rank_slices(l, r)));
  for (uint32_t k = 0; k < l.gather_sets.size(); ++k) {
    uint64_t most = 0;  // elements on the rank that has most, so that all ranks choose alike
    for (uint32_t r = 0; r < l.options.ranks(); ++r)
      most = std::max(most, window_elements(shard_runs(l, k, r, all[r])));
    if (most > left) break;
    left -= most;
    l.cached[k] = true;
  }
}

core::result<void> cuttable(const job_layout& l) {
  for (uint32_t r = 0; r < l.options.shards(); ++r)
    if (l.partition.elements_of(r) == 0)
      return core::fail(
          core::error_kind::bad_input,
          fmt::format("{}{} ranks, but the model's {} parameters can only be cut into {} parts of at least {} elements",
                      l.options.replicas() > 1 ? "shard groups of " : "parallel.data: ", l.options.shards(),
                      l.table->numel(), r, core::partition_grain));
  return {};
}

}  // namespace

core::result<std::shared_ptr<const job_layout>> make_layout(std::shared_ptr<const core::model_table> table,
                                                            const plan_options& options) {
  if (table->units.empty() || table->parameters.empty())
    return core::fail(error_kind::bad_input, "the model has no units");
  if (options.ranks() == 0 || options.accumulation == 0 || options.stage > 3)
    return core::fail(error_kind::bug, "plan: impossible degrees or stage");
  if (!options.updates.rules.empty() && options.updates.rules.size() != table->parameters.size())
    return core::fail(error_kind::bug, fmt::format("plan: the optimizer is given for {} parameters, the model has {}",
                                                   options.updates.rules.size(), table->parameters.size()));
  auto out = std::make_shared<job_layout>();
  auto& l = *out;
  l.options = options;
  l.table = std::move(table);
  l.partition = make_partition(*l.table, options.shards(), options.uneven);
  if (options.has_near_copies()) l.near_partition = make_partition(*l.table, options.gathering.near, options.uneven);
  TROUPE_TRY(cuttable(l));
  TROUPE_TRY(cut_into_stages(l));
  TROUPE_TRY(place_units(l));
  TROUPE_TRY(make_ties(l));
  l.communicators = communicators_of(options, l.exchanges);
  place_parameters(l);
  choose_persistent(l);
  make_gather_sets(l);
  TROUPE_TRY(make_compressed_sets(l));
  const bool trains = options.mode == mode::train, swaps = options.tiers.swaps();
  if (trains || swaps) make_buckets(l);
  if (swaps) {
    l.state_runs = l.buckets;  // equal in training and in all other plans, which use the same swap file
    choose_cached(l);
  }
  if (!trains) {
    l.buckets.clear();
    l.bucket_of.clear();
    return out;
  }
  l.bucket_order = bucket_orders(l);
  make_matrix_sets(l);
  make_publish_sets(l);
  if (l.buckets.empty())
    return core::fail(error_kind::bad_input, "parameter_groups: every parameter is frozen, there is nothing to train");
  for (uint32_t q = 0; q < l.bucket_of.size(); ++q)
    if (l.bucket_of[q] == none && l.trains(q))
      return core::fail(error_kind::bad_input,
                        l.table->parameters[q].name + ": no segment of the model writes its gradient");
  return out;
}

}  // namespace troupe::plan
