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

/// A set of distinct numbers below a bound, for thousands of insertions of few different numbers.
class distinct {
 public:
  explicit distinct(size_t bound) : seen_(bound, 0) {}
  void add(uint32_t number) {
    if (seen_[number] != 0) return;
    seen_[number] = 1;
    all_.push_back(number);
  }
  /// Appends to `to` the count of this set's numbers and the numbers in ascending order, and empties the set.
  void move_to(numbers& to) {
    std::ranges::sort(all_);
    to.push_back(all_.size());
    to.insert(to.end(), all_.begin(), all_.end());
    for (const uint32_t number : all_) seen_[number] = 0;
    all_.clear();
  }

 private:
  std::vector<uint8_t> seen_;
  std::vector<uint32_t> all_;
};

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

// Appends, for each block of a snapshot, its size and the sub-groups that change the states in it.
void add_snapshots(numbers& to, const rank_plan& p) {
  if (p.snapshots.empty()) return;
  const parameter_lists groups_of(p.table().parameters.size(), [&](auto told) {
    for (uint32_t g = 0; g < p.sub_groups.size(); ++g)
      for (const auto& x : p.sub_groups[g].pieces) told(x.parameter, g);
  });
  distinct groups(p.sub_groups.size());
  for (const auto& s : p.snapshots) {
    to.insert(to.end(), {s.bytes, s.frozen ? 1U : 0U});
    for (const auto& x : s.pieces)
      for (const uint32_t g : groups_of.of(x.parameter)) groups.add(g);
    groups.move_to(to);
  }
}

/// Describes the pieces of one sub-group by plain numbers, so that ranks with equal numbers can share a plan: undo
/// bytes, gradient buckets of the pieces' parameters, and the gather and publish sets that contain these parameters.
class piece_facts {
 public:
  piece_facts(const job_layout& l, const parameter_lists& sets_of)
      : l_(l), sets_of_(sets_of), buckets_(l.buckets.size() + 1), sets_(l.gather_sets.size() + l.publish_sets.size()) {}
  void add(numbers& to, const std::vector<owned_piece>& pieces) {
    const auto frozen = static_cast<uint32_t>(l_.buckets.size());  // stands for a parameter that is in no bucket,
                                                                   // because it is frozen
    uint64_t undo = 0;
    for (const auto& x : pieces) {
      if (!l_.bucket_of.empty()) buckets_.add(std::min(l_.bucket_of[x.parameter], frozen));
      for (const uint32_t set : sets_of_.of(x.parameter)) sets_.add(set);
      undo += undo_bytes(l_, x);
    }
    to.push_back(undo);
    buckets_.move_to(to);
    sets_.move_to(to);
  }

 private:
  const job_layout& l_;
  const parameter_lists& sets_of_;
  distinct buckets_, sets_;
};

/// Calls told(parameter, set) for the gather sets, then the publish sets, that contain each parameter.
void each_set(const job_layout& l, auto told) {
  const auto units = static_cast<uint32_t>(l.table->units.size());
  for (uint32_t u = 0; u < units; ++u)
    for (uint32_t q : l.table->units[u].parameters) told(q, u);
  for (uint32_t q = 0; q < l.table->parameters.size(); ++q)
    if (l.persistent[q]) told(q, units + l.pipeline_of[q]);
  for (uint32_t k = 0; k < l.publish_sets.size(); ++k)
    for (const auto& x : l.publish_sets[k].parameters)
      told(x.parameter, static_cast<uint32_t>(l.gather_sets.size()) + k);
}

}  // namespace

rank_shapes::rank_shapes(const job_layout& l)
    : l_(l), sets_of_(l.table->parameters.size(), [&](auto told) { each_set(l, told); }) {
  for (uint32_t q = 0; q < l.matrix_owner.size(); ++q)
    if (l.matrix_owner[q] != none) matrices_.push_back(q);
}

numbers rank_shapes::of(const rank_plan& own) const {
  const uint32_t pipeline =
      l_.options.mesh.pipeline_at(own.rank);  // determines the units that the rank computes and its neighbours
  numbers out{pipeline};
  add_sizes(out, own);
  piece_facts facts(l_, sets_of_);
  for (const auto& g : own.sub_groups) {
    out.insert(out.end(),
               {g.elements, static_cast<uint64_t>(g.need), g.matrices, prepared_bytes(l_, g), updated_bytes(l_, g)});
    facts.add(out, g.pieces);
  }
  for (const auto& b : own.blocks) {
    out.insert(out.end(), {b.elements, b.swapped, b.frozen ? 1U : 0U});
    facts.add(out, b.pieces);
  }
  add_snapshots(out, own);
  out.push_back(pipeline);
  for (const uint32_t q : matrices_)  // no two of the ranks that hold one copy of the states orthogonalise the same
                                      // matrix
    if (makes_orthogonal(l_, own.rank, q)) out.push_back(q);
  return out;
}

std::vector<rank_class> classes_of(const std::shared_ptr<const job_layout>& layout) {
  const rank_shapes shapes(*layout);
  const auto& mesh = layout->options.mesh;
  const uint32_t stages = mesh.degree(core::axis::pipeline), columns = mesh.ranks() / stages;
  std::vector<rank_class> out;
  // [numbers that describe the plans of a column, by pipeline coordinate]: index in `out` of the first of its classes.
  // A column is one rank of each pipeline coordinate.
  std::map<std::vector<numbers>, size_t> known;
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
