#include "plan/layout/classes.hpp"

#include <algorithm>
#include <map>

#include "plan/late_updates.hpp"
#include "plan/layout/layout.hpp"
#include "plan/layout/matrices.hpp"
#include "plan/layout/own.hpp"
#include "plan/layout/update_memory.hpp"

namespace troupe::plan {
namespace {

using numbers = std::vector<uint64_t>;

/// Appends the number of different values in `all`, then those values.
template <class Of>
void add_set(numbers& to, std::vector<Of> all) {
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  to.push_back(all.size());
  to.insert(to.end(), all.begin(), all.end());
}

void add_sizes(numbers& to, const rank_plan& p) {
  const job_layout& l = *p.layout;
  to.insert(to.end(),
            {p.offsets.shard_elements, p.offsets.state_elements, p.undo_bytes, p.swap_file_bytes, deferred_bytes(p)});
  for (uint32_t set = 0; set < l.gather_sets.size() && l.options.has_near_copies(); ++set)
    to.push_back(near_elements(p, set));
  for (size_t b = 1; b < p.offsets.bucket_begin.size(); ++b)
    to.push_back(p.offsets.bucket_begin[b] - p.offsets.bucket_begin[b - 1]);
  to.insert(to.end(), p.undo_offset.begin(), p.undo_offset.end());
  to.insert(to.end(), std::begin(p.moment_elements), std::end(p.moment_elements));
  to.insert(to.end(), std::begin(p.resident_elements), std::end(p.resident_elements));
  for (uint32_t set = 0; set < l.gather_sets.size() && l.options.tiers.parameters == tier::nvme; ++set)
    to.push_back(window_elements(shard_runs(p, set)));
}

// The sub-groups that change the copied states.
void add_snapshots(numbers& to, const rank_plan& p) {
  std::vector<std::vector<uint32_t>> groups_of(p.table().parameters.size());
  for (uint32_t g = 0; g < p.sub_groups.size(); ++g)
    for (const auto& x : p.sub_groups[g].pieces) groups_of[x.parameter].push_back(g);
  for (const auto& s : p.snapshots) {
    to.insert(to.end(), {s.bytes, s.frozen ? 1U : 0U});
    std::vector<uint32_t> groups;
    for (const auto& x : s.pieces)
      groups.insert(groups.end(), groups_of[x.parameter].begin(), groups_of[x.parameter].end());
    add_set(to, std::move(groups));
  }
}

// The buckets that gradients come from, and the gathers and publishes that read the updated elements.
void add_pieces(numbers& to, const job_layout& l, const std::vector<owned_piece>& pieces,
                const std::vector<std::vector<uint32_t>>& sets_of) {
  std::vector<uint32_t> buckets, sets;
  uint64_t undo = 0;
  for (const auto& x : pieces) {
    if (!l.bucket_of.empty()) buckets.push_back(l.bucket_of[x.parameter]);
    sets.insert(sets.end(), sets_of[x.parameter].begin(), sets_of[x.parameter].end());
    undo += undo_bytes(l, x);
  }
  to.push_back(undo);
  add_set(to, std::move(buckets));
  add_set(to, std::move(sets));
}

}  // namespace

rank_shapes::rank_shapes(const job_layout& l) : l_(l), sets_of_(l.table->parameters.size()) {
  for (uint32_t u = 0; u < l.table->units.size(); ++u)
    for (uint32_t q : l.table->units[u].parameters) sets_of_[q].push_back(u);
  for (uint32_t q = 0; q < sets_of_.size(); ++q)
    if (l.persistent[q]) sets_of_[q].push_back(static_cast<uint32_t>(l.table->units.size()) + l.pipeline_of[q]);
  for (uint32_t k = 0; k < l.publish_sets.size(); ++k)
    for (const auto& x : l.publish_sets[k].parameters)
      sets_of_[x.parameter].push_back(static_cast<uint32_t>(l.gather_sets.size()) + k);
}

numbers rank_shapes::of(const rank_plan& own) const {
  numbers out{l_.pipeline_at(own.rank)};
  add_sizes(out, own);
  for (const auto& g : own.sub_groups) {
    out.insert(out.end(), {g.elements, static_cast<uint64_t>(g.need), g.matrices});
    add_pieces(out, l_, g.pieces, sets_of_);
  }
  for (const auto& b : own.blocks) {
    out.insert(out.end(), {b.elements, b.swapped, b.frozen ? 1U : 0U});
    add_pieces(out, l_, b.pieces, sets_of_);
  }
  add_snapshots(out, own);
  out.push_back(l_.pipeline_at(own.rank));  // what it computes, and whom it meets
  for (uint32_t q = 0; q < l_.matrix_owner.size(); ++q)
    if (makes_orthogonal(l_, own.rank, q))
      out.push_back(q);  // no two ranks of a replica make the same matrix orthogonal
  return out;
}

std::vector<rank_class> classes_of(const std::shared_ptr<const job_layout>& layout) {
  const rank_shapes shapes(*layout);
  const auto& mesh = layout->options.mesh;
  const uint32_t stages = mesh.degree(core::axis::pipeline), columns = mesh.ranks() / stages;
  std::vector<rank_class> out;
  std::map<std::vector<numbers>, size_t> known;  // [pipeline coordinate]: the first of a column's classes
  for (uint32_t column = 0; column < columns; ++column) {
    std::vector<numbers> all;
    for (uint32_t k = 0; k < stages; ++k) all.push_back(shapes.of(own_part(layout, mesh.at_stage(column, k))));
    const auto [it, fresh] = known.try_emplace(std::move(all), out.size());
    if (fresh) out.resize(out.size() + stages);
    for (uint32_t k = 0; k < stages; ++k) out[it->second + k].ranks.push_back(mesh.at_stage(column, k));
  }
  std::ranges::sort(out, {}, &rank_class::representative);
  return out;
}

}  // namespace troupe::plan
