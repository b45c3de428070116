// Checks the layout that all ranks share: every element of every parameter has one offset in each parameter set that
// contains it, and one owner.
#include <fmt/format.h>

#include <algorithm>

#include "core/math.hpp"
#include "plan/check/extents.hpp"
#include "plan/check/rules.hpp"
#include "plan/layout/buckets.hpp"
#include "plan/layout/communicators.hpp"
#include "plan/layout/matrices.hpp"
#include "plan/stages.hpp"

namespace troupe::plan::rules {
namespace {

uint64_t numel(const job_layout& l, uint32_t q) { return l.table->parameters[q].numel(); }

core::result<void> model_is_sound(const job_layout& l) {
  if (l.table == nullptr || l.table->units.empty() || l.table->parameters.empty()) return broken(l, "no model table");
  const size_t parameters = l.table->parameters.size();
  for (uint32_t q = 0; q < parameters; ++q)
    if (l.is_copy(q) &&
        (l.table->original(q) >= q || l.is_copy(l.table->original(q)) ||
         numel(l, q) != numel(l, l.table->original(q)) || l.trains(q) != l.trains(l.table->original(q)) ||
         l.is_cut(q) != l.is_cut(l.table->original(q))))
      return broken(l, l.table->parameters[q].name +
                           " differs from the parameter that it is a copy of: in order, elements, training or cut");
  const auto& beside = l.table->beside;
  const auto is_own = [&](uint32_t u) { return u >= first_of_model(l) && u < l.table->units.size(); };
  if (first_of_model(l) >= l.table->units.size() || (!beside.empty() && beside.size() != first_of_model(l)) ||
      !std::ranges::is_sorted(beside) || !std::ranges::all_of(beside, is_own))
    return broken(l, "units of a teacher are not beside units of the model, in order");
  for (const auto& u : l.table->units) {
    const auto known = [&](uint32_t q) { return q < parameters; };
    if (!std::all_of(u.parameters.begin(), u.parameters.end(), known)) return broken(l, u.name + " names no parameter");
    for (const auto& s : u.segments)
      for (uint32_t q : s.parameters)
        if (std::find(u.parameters.begin(), u.parameters.end(), q) == u.parameters.end())
          return broken(l,
                        "a segment of " + u.name + " writes the gradient of a parameter that its unit does not read");
    for (const auto& s : u.segments)
      for (uint32_t q : s.parameters)
        if (const bool alike = l.table->parameters[q].share == core::tensor_share::alike;
            alike == (s.output.is_of_tensor_group() || s.input_gradient.is_of_tensor_group()))
          return broken(l, "a segment of " + u.name + (alike ? " is cut over a tensor group" : " is not cut") +
                               ", but " + l.table->parameters[q].name +
                               (alike ? " says that it is not" : " says that it is"));
  }
  return {};
}

core::result<void> sizes(const job_layout& l) {
  const auto& o = l.options;
  if (o.accumulation == 0 || o.ranks() == 0 || o.stage > 3) return broken(l, "impossible degrees");
  const size_t parameters = l.table->parameters.size();
  const bool trains = o.mode == mode::train;
  const uint32_t stages = o.mesh.degree(core::axis::pipeline);
  const bool sound = l.gather_sets.size() == l.table->units.size() + stages && l.full_elements.size() == stages &&
                     l.stage_of_unit.size() == l.table->units.size() && l.pipeline_of.size() == parameters &&
                     l.persistent.size() == parameters && l.full_offset.size() == parameters &&
                     l.block_offset.size() == parameters && l.partition.parameters() == parameters &&
                     l.partition.ranks() == o.shards() && l.bucket_of.size() == (trains ? parameters : 0) &&
                     l.near_partition.parameters() == (o.has_near_copies() ? parameters : 0) &&
                     (!o.has_near_copies() || l.near_partition.ranks() == o.gathering.near) &&
                     l.matrix_owner.size() == l.bucket_of.size() &&
                     (o.updates.rules.empty() || o.updates.rules.size() == parameters) &&
                     (!trains || !o.tiers.swaps() || l.state_runs == l.buckets);
  if (!sound) return broken(l, "its tables do not have the sizes of its model and degrees");
  for (const auto* sets : {&l.gather_sets, &l.buckets, &l.matrix_sets, &l.publish_sets, &l.state_runs})
    for (const auto& s : *sets)
      for (const auto& x : s.parameters)
        if (x.parameter >= parameters) return broken(l, s.name + " holds a parameter that the model does not have");
  for (uint32_t q = 0; q < l.bucket_of.size(); ++q)
    if (l.trains(q) ? l.bucket_of[q] >= l.buckets.size() : l.bucket_of[q] != none)
      return broken(l, l.table->parameters[q].name + (l.trains(q) ? " is in no bucket: no segment writes its gradient"
                                                                  : " is frozen but in a bucket"));
  return {};
}

// Checks that the communicators follow from the job's options and exchanges, and that the communicator of all ranks
// contains every rank.
core::result<void> communicators_are_right(const job_layout& l) {
  if (l.communicators != communicators_of(l.options, l.exchanges))
    return broken(l, "its communicators are not those of its ranks and stages");
  if (l.communicators[world_communicator(l)].members.size() != l.options.ranks())
    return broken(l, "not all ranks meet for the vote");
  return {};
}

core::result<void> is_cut_well(const job_layout& l, const partition& cut) {
  for (uint32_t q = 0; q < cut.parameters(); ++q) {
    uint64_t end = 0;
    for (uint32_t r = 0; r < cut.ranks(); ++r) {
      const slice s = cut.of(q, r);
      if (s.first != end || (s.count > 0 && s.first % core::partition_grain != 0))
        return broken(l, l.table->parameters[q].name + " is not cut into neighbouring runs of whole blocks");
      end += s.count;
    }
    for (uint32_t r = 0; l.is_copy(q) && r < l.options.shards(); ++r)
      if (l.partition.of(q, r) != l.partition.of(l.table->original(q), r))
        return broken(l, l.table->parameters[q].name + " is not cut as its original is");
    if (end != numel(l, q)) return broken(l, l.table->parameters[q].name + " has elements without owner");
  }
  return {};
}

core::result<void> cuts(const job_layout& l) {
  TROUPE_TRY(is_cut_well(l, l.partition));
  return is_cut_well(l, l.near_partition);
}

core::result<void> places(const job_layout& l) {
  for (uint32_t at = 0; at < l.full_elements.size(); ++at) {
    const auto held = [&](uint32_t q) { return l.pipeline_of[q] == at ? numel(l, q) : 0; };
    if (!lies_well(l.full_offset, l.full_elements[at], held))
      return broken(l, "parameters overlap in the full layout or start off their 64-byte boundary");
    uint64_t wanted = 0;
    for (uint32_t q = 0; q < l.full_offset.size(); ++q) wanted += core::round_up(held(q), core::parameter_grain);
    if (l.full_elements[at] != wanted) return broken(l, "the full layout has room for more than it holds");
  }
  uint64_t blocks = 0;
  for (uint32_t q = 0; q < l.block_offset.size(); ++q) {
    if (l.block_offset[q] != (l.is_copy(q) ? l.block_offset[l.table->original(q)] : blocks))
      return broken(l, l.table->parameters[q].name + " has its square sums in the wrong place");
    if (l.trains(q) && !l.is_copy(q))
      blocks += core::div_up(numel(l, q), core::partition_grain) * (l.is_cut(q) ? l.options.mesh.tensor_ranks() : 1);
  }
  if (const uint64_t wanted = l.options.mode == mode::train ? blocks : 0; l.num_blocks != wanted)
    return broken(l, fmt::format("its vote has square sums of {} blocks, wanted {}", l.num_blocks, wanted));
  return {};
}

core::result<void> set_is_laid_out(const job_layout& l, const parameter_set& s) {
  std::vector<extent> all;
  uint64_t total = 0;
  for (const auto& x : s.parameters) {
    if (x.offset % core::parameter_grain != 0) return broken(l, s.name + " has a parameter off its 64-byte boundary");
    all.push_back({x.offset, x.offset + numel(l, x.parameter)});
    total += numel(l, x.parameter);
  }
  if (!apart(all, s.elements)) return broken(l, "parameters overlap in " + s.name + " or exceed its end");
  if (total != s.numel) return broken(l, s.name + " counts its elements wrongly");
  return {};
}

/// Returns [parameter]: number of sets among `sets` that contain the parameter.
std::vector<uint32_t> membership(const job_layout& l, const std::vector<parameter_set>& sets) {
  std::vector<uint32_t> out(l.table->parameters.size(), 0);
  for (const auto& s : sets)
    for (const auto& x : s.parameters) ++out[x.parameter];
  return out;
}

// Checks the order of stages, and that each parameter and set is held by the ranks that compute the units that read it.
core::result<void> stages(const job_layout& l) {
  const uint32_t ranks = l.options.mesh.degree(core::axis::pipeline);
  for (uint32_t u = 0; u < l.stage_of_unit.size(); ++u) {
    if (u < first_of_model(l)) {
      const uint32_t wanted = l.table->beside.empty() ? 0 : l.stage_of_unit[l.table->beside[u]];
      if (l.stage_of_unit[u] == wanted) continue;
      return broken(
          l, l.table->units[u].name + " is in another stage than the unit of the model that it is compared with");
    }
    const bool begins = u == first_of_model(l);
    const uint32_t before = begins ? 0 : l.stage_of_unit[u - 1];
    if (l.stage_of_unit[u] < before || l.stage_of_unit[u] > before + (begins ? 0 : 1))
      return broken(l, l.table->units[u].name + " is in a stage that does not continue that of the unit before it");
  }
  const auto& first = l.options.pipeline.first_unit;
  if (!first.empty() &&
      (num_stages(l) != l.options.pipeline.table.rank_of_stage.size() || num_stages(l) != first.size()))
    return broken(l, "its stages are not those of its schedule");
  for (uint32_t k = 0; k < first.size(); ++k)
    if (first[k] >= l.stage_of_unit.size() || l.stage_of_unit[first[k]] != k || !begins_stage(l, first[k]))
      return broken(l, fmt::format("stage {} does not begin where its units do", k));
  for (uint32_t k = 0; k < num_stages(l); ++k)
    if (pipeline_of_stage(l, k) >= ranks) return broken(l, fmt::format("stage {} is not on a rank", k));
  for (uint32_t u = 0; u < l.stage_of_unit.size(); ++u)
    for (const uint32_t q : l.table->units[u].parameters)
      if (l.pipeline_of[q] != pipeline_of_unit(l, u))
        return broken(
            l, l.table->parameters[q].name + " is held elsewhere than " + l.table->units[u].name + " is computed");
  for (const auto* kind : {&l.gather_sets, &l.buckets, &l.matrix_sets, &l.publish_sets})
    for (const auto& s : *kind)
      for (const auto& x : s.parameters)
        if (l.pipeline_of[x.parameter] != s.pipeline)
          return broken(l, s.name + " holds a parameter of other ranks: " + l.table->parameters[x.parameter].name);
  return {};
}

core::result<void> sets(const job_layout& l) {
  for (const auto* kind : {&l.gather_sets, &l.buckets, &l.matrix_sets, &l.publish_sets})
    for (const auto& s : *kind) TROUPE_TRY(set_is_laid_out(l, s));
  const auto members = [](const parameter_set& s) {
    std::vector<uint32_t> out;
    for (const auto& x : s.parameters) out.push_back(x.parameter);
    std::sort(out.begin(), out.end());
    return out;
  };
  for (uint32_t u = 0; u < l.gather_sets.size(); ++u) {
    std::vector<uint32_t> wanted;
    if (u < l.table->units.size()) {
      for (uint32_t q : l.table->units[u].parameters)
        if (!l.persistent[q]) wanted.push_back(q);
      std::sort(wanted.begin(), wanted.end());
    } else {
      for (uint32_t q = 0; q < l.persistent.size(); ++q)
        if (l.persistent[q] && l.pipeline_of[q] + l.table->units.size() == u) wanted.push_back(q);
    }
    if (members(l.gather_sets[u]) != wanted)
      return broken(l, "gather set " + l.gather_sets[u].name + " does not match the parameters that its unit reads");
  }
  if (l.options.mode != mode::train) return {};
  const auto in_buckets = membership(l, l.buckets), published = membership(l, l.publish_sets);
  const auto in_matrices = membership(l, l.matrix_sets);
  const bool publishes = l.options.stage == 1 || l.options.stage == 2;
  for (uint32_t q = 0; q < in_buckets.size(); ++q) {
    const bool whole = l.need_of(q) == update_need::whole_matrix;
    if (in_matrices[q] != (whole ? 1 : 0) || (whole ? l.matrix_owner[q] >= matrix_ranks(l) : l.matrix_owner[q] != none))
      return broken(l, l.table->parameters[q].name + " is not in exactly one matrix set with an owner if any");
    if (const auto [rows, columns] = whole_shape(l, q);
        whole && (rows * columns > shares_of(l, q) * l.table->parameters[q].numel() || rows * columns == 0))
      return broken(l, l.table->parameters[q].name + " is a larger matrix than its shares make up");
    const uint32_t wanted = publishes && l.trains(q) ? 1 : 0;
    if (published[q] != wanted)
      return broken(
          l, fmt::format("{} is in {} publish sets, wanted {}", l.table->parameters[q].name, published[q], wanted));
    if (!l.trains(q)) {
      if (in_buckets[q] != 0) return broken(l, l.table->parameters[q].name + " is frozen but in a bucket");
      continue;
    }
    const auto& bucket = l.buckets[l.bucket_of[q]].parameters;
    if (l.buckets[l.bucket_of[q]].over_tensor != l.is_summed(q))
      return broken(l, l.table->parameters[q].name +
                           (l.is_summed(q) ? " is not added over the ranks of a tensor group, which form parts of it"
                                           : " is added over the ranks of a tensor group, which all form it"));
    const bool there = std::any_of(bucket.begin(), bucket.end(), [&](const placement& x) { return x.parameter == q; });
    if (in_buckets[q] != 1 || !there) return broken(l, l.table->parameters[q].name + " is not in exactly one bucket");
  }
  return {};
}

// Checks job_layout::bucket_order, the order in which the gradients of micro-batches are added to a bucket. The order
// follows the stages that write to the bucket: a micro-batch's gradients are complete when the last of these stages has
// written them.
core::result<void> sums(const job_layout& l) {
  const auto& pipeline = l.options.pipeline;
  const uint32_t micros = l.options.accumulation;
  for (const auto& order : l.bucket_order)
    if (order.size() != micros || std::ranges::any_of(order, [&](uint32_t m) { return m >= micros; }))
      return broken(l, "a bucket has another number of micro-batches than a step");
  if (l.bucket_order.size() != (l.bucket_order.empty() ? 0 : l.buckets.size()))
    return broken(l, "it does not say of each bucket in which order its sums are made");
  if (pipeline.first_unit.empty())
    return l.bucket_order.empty() ? core::result<void>{} : broken(l, "its sums leave the order of micro-batches");
  // [stage * micros + micro-batch]: position, among its rank's actions, of the action that computes weight gradients
  std::vector<uint32_t> written(size_t{num_stages(l)} * micros, none);
  for (const auto& order : pipeline.table.orders)
    for (uint32_t i = 0; i < order.size(); ++i)
      for_each_part(order[i], [&](const action& a) {
        if (a.type == action_type::backward || a.type == action_type::backward_weight)
          written[size_t{a.stage} * micros + a.micro] = i;
      });
  const auto all = contributions(*l.table);
  const auto whole_at = [&](const parameter_set& bucket, uint32_t micro) {
    uint32_t at = 0;
    for (const auto& x : bucket.parameters)
      for (const auto& c : all[x.parameter])
        at = std::max(at, written[size_t{l.stage_of_unit[c.unit]} * micros + micro]);
    return at;
  };
  for (uint32_t b = 0; b < l.buckets.size(); ++b)
    for (uint32_t k = 1; k < micros; ++k)
      if (whole_at(l.buckets[b], l.nth_micro(b, k - 1)) >= whole_at(l.buckets[b], l.nth_micro(b, k)))
        return broken(l, fmt::format("{} adds micro-batch {} elsewhere than where its stages write it",
                                     l.buckets[b].name, l.nth_micro(b, k)));
  return {};
}

}  // namespace

core::result<void> layout(const job_layout& l) {
  for (auto rule : {model_is_sound, sizes, stages, communicators_are_right, cuts, places, sets, sums})
    TROUPE_TRY(rule(l));
  return {};
}

}  // namespace troupe::plan::rules
