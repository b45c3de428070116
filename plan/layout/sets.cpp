#include "plan/layout/sets.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/math.hpp"
#include "plan/layout/activation_extents.hpp"
#include "plan/layout/layout.hpp"
#include "plan/layout/update_memory.hpp"

namespace troupe::plan {
namespace {

// zero.md 7.4: small parameters stay gathered until the sum of them reaches the model's own threshold.
void choose_persistent(step_plan& p) {
  p.persistent.assign(p.table->parameters.size(), false);
  if (!p.gathers()) return;
  uint64_t total = 0;
  for (size_t q = 0; q < p.persistent.size(); ++q) {
    const uint64_t n = p.table->parameters[q].numel();
    if (n > p.options.persistence_threshold || n + total > p.options.model_persistence_threshold) continue;
    p.persistent[q] = true;
    total += n;
  }
}

void make_gather_sets(step_plan& p) {
  std::vector<uint32_t> kept;
  for (const auto& unit : p.table->units) {
    std::vector<uint32_t> members;
    for (uint32_t q : unit.parameters)
      if (!p.persistent[q]) members.push_back(q);
    p.gather_sets.push_back(lay_out(*p.table, members, unit.name));
  }
  for (uint32_t q = 0; q < p.persistent.size(); ++q)
    if (p.persistent[q]) kept.push_back(q);
  p.gather_sets.push_back(lay_out(*p.table, kept, "persistent parameters"));
}

// In order of completion. A parameter that several segments write to gets a bucket of its own: it is open longest.
void make_buckets(step_plan& p) {
  const auto writes = contributions(*p.table);
  std::vector<uint32_t> open;
  uint64_t elements = 0;
  p.bucket_of.assign(p.table->parameters.size(), none);
  const auto close = [&] {
    if (open.empty()) return;
    for (uint32_t q : open) p.bucket_of[q] = static_cast<uint32_t>(p.buckets.size());
    p.buckets.push_back(lay_out(*p.table, open, "bucket " + std::to_string(p.buckets.size())));
    open.clear();
    elements = 0;
  };
  for (auto u = static_cast<int64_t>(p.table->units.size()) - 1; u >= 0; --u) {
    // What waits for the first unit is reduced when there is nothing left to compute.
    if (p.options.buckets_follow_units && (u == 0 || elements >= unit_bucket_min / 2)) close();
    const auto& segments = p.table->units[static_cast<size_t>(u)].segments;
    for (auto s = static_cast<int64_t>(segments.size()) - 1; s >= 0; --s)
      for (uint32_t q : segments[static_cast<size_t>(s)].parameters) {
        if (writes[q].empty()) continue;
        const auto& last = writes[q].back();
        if (last.unit != u || last.segment != s) continue;
        const uint64_t n = p.table->parameters[q].numel();
        if (writes[q].size() > 1) {
          close();
          open.push_back(q);
          close();
          continue;
        }
        if (elements + n > p.options.reduce_bucket) close();
        open.push_back(q);
        elements += n;
      }
  }
  close();
}

void make_layouts(step_plan& p) {
  std::vector<uint32_t> all(p.table->parameters.size());
  for (uint32_t q = 0; q < all.size(); ++q) all[q] = q;
  const parameter_set full = lay_out(*p.table, all, "all");
  p.full_elements = full.elements;
  for (const auto& x : full.parameters) p.full_offset.push_back(x.offset);
  p.shard_offset.assign(p.options.ranks, {});
  p.shard_elements.assign(p.options.ranks, 0);
  for (uint32_t r = 0; r < p.options.ranks; ++r)
    for (uint32_t q : all) {
      p.shard_offset[r].push_back(p.shard_elements[r]);
      p.shard_elements[r] += core::round_up(p.partition.of(q, r).count, core::parameter_alignment_bytes / 2);
    }
  for (uint32_t q : all) {
    p.block_offset.push_back(p.num_blocks);
    if (p.trains(q)) p.num_blocks += core::div_up(p.table->parameters[q].numel(), core::partition_grain);
  }
}

constexpr uint64_t grain = core::parameter_alignment_bytes / 2;  // of elements of at least 2 bytes

// Frozen parameters have no states: the place that stands here for them is nobody's.
void make_state_layouts(step_plan& p) {
  const auto parameters = static_cast<uint32_t>(p.table->parameters.size());
  p.state_offset.assign(p.options.ranks, {});
  p.state_elements.assign(p.options.ranks, 0);
  for (uint32_t q = 0; q < parameters; ++q) {
    for (uint32_t r = 0; r < p.options.ranks; ++r) {
      p.state_offset[r].push_back(p.state_elements[r]);
      p.state_elements[r] += core::round_up(p.state_slice(q, r).count, grain);
    }
    for (uint32_t k = 0; k < max_moments; ++k) {
      p.moment_offset[k].push_back(p.moment_elements[k]);
      if (k < p.options.update_of(q).moments)
        p.moment_elements[k] += core::round_up(p.state_slice(q, p.rank).count, grain);
    }
  }
}

// Where states are swapped, a sub-group is a block of the linear layout.
void make_swapped_sub_groups(step_plan& p) {
  for (const auto& b : p.blocks) {
    if (b.frozen) continue;
    sub_group g;
    g.pieces = b.pieces;
    for (const auto& x : b.pieces) g.elements += x.range.count;
    p.sub_groups.push_back(std::move(g));
  }
}

// zero.md 7.6: a sub-group closes when its sum reaches the limit, so it may exceed it by one parameter.
void make_sub_groups(step_plan& p) {
  sub_group open;
  const auto add = [&](sub_group& to, uint32_t q) {
    const slice range = p.state_slice(q, p.rank);
    if (range.count == 0) return;
    to.pieces.push_back({q, range, p.state_offset[p.rank][q]});
    to.elements += range.count;
    to.need = std::max(to.need, p.need_of(q));
  };
  for (uint32_t q = 0; q < p.table->parameters.size(); ++q) {
    if (p.need_of(q) == update_need::whole_matrix) continue;
    add(open, q);
    if (open.elements >= p.options.sub_group) {
      p.sub_groups.push_back(std::move(open));
      open = {};
    }
  }
  if (!open.pieces.empty()) p.sub_groups.push_back(std::move(open));
  // All ranks meet over every matrix set, so each has a sub-group for it, perhaps an empty one.
  for (uint32_t k = 0; k < p.matrix_sets.size(); ++k) {
    sub_group g;
    for (const auto& x : p.matrix_sets[k].parameters) add(g, x.parameter);
    g.need = update_need::whole_matrix;
    g.matrices = k;
    p.sub_groups.push_back(std::move(g));
  }
}

// Each matrix falls to the rank that has the fewest elements to make orthogonal so far.
void make_matrix_sets(step_plan& p) {
  std::vector<uint32_t> open;
  std::vector<uint64_t> load(p.options.ranks, 0);
  uint64_t elements = 0;
  p.matrix_owner.assign(p.table->parameters.size(), none);
  const auto close = [&] {
    if (!open.empty())
      p.matrix_sets.push_back(lay_out(*p.table, open, "matrices " + std::to_string(p.matrix_sets.size())));
    open.clear();
    elements = 0;
  };
  for (uint32_t q = 0; q < p.table->parameters.size(); ++q) {
    if (p.need_of(q) != update_need::whole_matrix) continue;
    const uint64_t n = p.table->parameters[q].numel();
    if (elements + n > p.options.allgather_bucket) close();
    open.push_back(q);
    elements += n;
    const auto least = std::min_element(load.begin(), load.end());
    p.matrix_owner[q] = static_cast<uint32_t>(least - load.begin());
    *least += n;
  }
  close();
}

void make_publish_sets(step_plan& p) {
  if (p.options.stage != 1 && p.options.stage != 2) return;
  std::vector<uint32_t> open;
  uint64_t elements = 0;
  const auto close = [&] {
    if (!open.empty())
      p.publish_sets.push_back(lay_out(*p.table, open, "publish " + std::to_string(p.publish_sets.size())));
    open.clear();
    elements = 0;
  };
  for (uint32_t q = 0; q < p.table->parameters.size(); ++q) {
    if (!p.trains(q)) continue;
    const uint64_t n = p.table->parameters[q].numel();
    if (elements + n > p.options.allgather_bucket) close();
    open.push_back(q);
    elements += n;
  }
  close();
}

}  // namespace

std::vector<std::vector<contribution>> contributions(const core::model_table& table) {
  std::vector<std::vector<contribution>> out(table.parameters.size());
  for (auto u = static_cast<int64_t>(table.units.size()) - 1; u >= 0; --u) {
    const auto& segments = table.units[static_cast<size_t>(u)].segments;
    for (auto s = static_cast<int64_t>(segments.size()) - 1; s >= 0; --s)
      for (uint32_t q : segments[static_cast<size_t>(s)].parameters)
        if (table.parameters[q].trainable) out[q].push_back({static_cast<uint32_t>(u), static_cast<uint32_t>(s)});
  }
  return out;
}

uint64_t unit_bucket(const core::model_table& table) {
  const auto writes = contributions(table);
  std::vector<uint64_t> elements(table.units.size(), 0);
  for (size_t q = 0; q < writes.size(); ++q)
    if (writes[q].size() == 1) elements[writes[q].front().unit] += table.parameters[q].numel();
  return std::max(unit_bucket_min, *std::ranges::max_element(elements));
}

uint64_t segment_bucket(const core::model_table& table) {
  const auto writes = contributions(table);
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> elements;
  for (size_t q = 0; q < writes.size(); ++q)
    if (writes[q].size() == 1)
      elements[{writes[q].front().unit, writes[q].front().segment}] += table.parameters[q].numel();
  uint64_t most = unit_bucket_min;
  for (const auto& [segment, n] : elements) most = std::max(most, n);
  return most;
}

void make_sets(step_plan& p) {
  p.partition = make_partition(*p.table, p.options.ranks, p.options.round_robin);
  make_layouts(p);
  make_state_layouts(p);
  choose_persistent(p);
  make_gather_sets(p);
  const bool trains = p.options.mode == mode::train, swaps = p.options.tiers.swaps();
  if (trains || swaps) make_buckets(p);
  if (swaps) make_swap_layout(p);  // the same in every plan of a run, whatever it does
  place_activations(p);
  if (!trains) {
    p.num_blocks = 0;
    p.buckets.clear();
    p.bucket_of.clear();
    return;
  }
  make_matrix_sets(p);
  swaps ? make_swapped_sub_groups(p) : make_sub_groups(p);
  place_undo_copies(p);
  make_publish_sets(p);
}

}  // namespace troupe::plan
