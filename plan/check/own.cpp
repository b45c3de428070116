// Checks one rank's own part: its slices and states have memory, and it updates exactly the elements that it owns.
#include <fmt/format.h>

#include <algorithm>

#include "plan/check/extents.hpp"
#include "plan/check/rules.hpp"
#include "plan/layout/classes.hpp"

namespace troupe::plan::rules {
namespace {

core::result<void> offsets(const rank_plan& p, const collective_pieces& places) {
  const job_layout& l = *p.layout;
  const rank_slices& mine = places.slices(p.rank);
  if (p.offsets != places.offsets(p.rank))
    return broken(p, "its slices or states are not where other ranks expect them");
  if (!lies_well(p.offsets.shard, p.offsets.shard_elements, [&](uint32_t q) { return mine.of(q).count; }))
    return broken(p, "slices overlap or start off their 64-byte boundary");
  if (!lies_well(p.offsets.state, p.offsets.state_elements, [&](uint32_t q) { return mine.state(q).count; }))
    return broken(p, "states overlap or start off their 64-byte boundary");
  for (uint32_t k = 0; k < max_moments; ++k)
    if (!lies_well(p.moment_offset[k], p.moment_elements[k],
                   [&](uint32_t q) { return k < l.options.update_of(q).moments ? mine.state(q).count : 0; }))
      return broken(p, "moments overlap or start off their 64-byte boundary");
  return {};
}

/// Elements of one parameter that a sub-group updates.
struct updated {
  uint32_t parameter = 0;
  extent range;
  [[nodiscard]] bool is_before(const updated& other) const {
    return parameter != other.parameter ? parameter < other.parameter : range.first < other.range.first;
  }
};

// Checks that `all` contains every element that the rank owns, and none twice.
core::result<void> are_all(const rank_plan& p, const rank_slices& own, std::vector<updated>& all) {
  const auto is_before = [](const updated& a, const updated& b) { return a.is_before(b); };
  if (!std::is_sorted(all.begin(), all.end(), is_before)) std::sort(all.begin(), all.end(), is_before);
  auto x = all.begin();
  for (uint32_t q = 0; q < p.table().parameters.size(); ++q) {
    const slice mine = own.state(q);
    uint64_t reached = mine.first;
    for (; x != all.end() && x->parameter == q && x->range.first == reached; ++x) reached = x->range.end;
    if (reached != mine.first + mine.count || (x != all.end() && x->parameter == q))
      return broken(p, p.table().parameters[q].name + ": not every owned element is updated exactly once");
  }
  return {};
}

// Checks that every owned element is in exactly one sub-group, with its moments at the layout's offsets.
core::result<void> owned(const rank_plan& p, const collective_pieces& places) {
  if (p.options().mode != mode::train) return {};
  const rank_slices& own = places.slices(p.rank);
  std::vector<updated> covered;
  std::vector<uint32_t> groups_of_set(p.layout->matrix_sets.size(), 0);
  for (const auto& g : p.sub_groups) {
    uint64_t total = 0;
    update_need need = g.matrices == none ? update_need::elements : update_need::whole_matrix;
    if (g.matrices != none) ++groups_of_set[g.matrices];
    for (const auto& x : g.pieces) {
      need = std::max(need, p.layout->need_of(x.parameter));
      const slice mine = own.state(x.parameter);
      const uint64_t base = p.offsets.state[x.parameter];
      const auto in_set = [&](const placement& y) { return y.parameter == x.parameter; };
      if (g.matrices != none && std::none_of(p.layout->matrix_sets[g.matrices].parameters.begin(),
                                             p.layout->matrix_sets[g.matrices].parameters.end(), in_set))
        return broken(
            p, "a sub-group updates " + p.table().parameters[x.parameter].name + ", which is not in its matrix set");
      const bool inside = x.range.first >= mine.first && x.range.first + x.range.count <= mine.first + mine.count;
      if (!inside || x.state_offset != base + (x.range.first - mine.first))
        return broken(p, "a sub-group updates elements of " + p.table().parameters[x.parameter].name +
                             " that belong to another rank, or has their moments at other offsets");
      if (x.range.count > 0) covered.push_back({x.parameter, {x.range.first, x.range.first + x.range.count}});
      total += x.range.count;
    }
    if (total != g.elements) return broken(p, "a sub-group counts its elements wrongly");
    if (need != g.need) return broken(p, "a sub-group needs more or less than its parameters do");
  }
  for (uint32_t k = 0; k < groups_of_set.size(); ++k)
    if (groups_of_set[k] != (p.layout->matrix_sets[k].pipeline == p.options().mesh.pipeline_at(p.rank) ? 1 : 0))
      return broken(p, fmt::format("a matrix set is updated by {} sub-groups, wanted one", groups_of_set[k]));
  return are_all(p, own, covered);
}

}  // namespace

core::result<void> own(const rank_plan& p, const collective_pieces& places) {
  for (auto rule : {offsets, owned, swap_layout}) TROUPE_TRY(rule(p, places));
  return undo_copies(p);
}

core::result<void> own_parts(std::span<const rank_class> classes, rank_plans plans, const collective_pieces& places,
                             const rank_part& part) {
  const job_layout& l = *plans[0]->layout;
  const rank_shapes shapes(l);
  std::vector<uint32_t> class_of(l.options.ranks(), none);
  std::vector<std::vector<uint64_t>> wanted;  // [class]: numbers (rank_shapes) that each plan of the class must have
  for (uint32_t c = 0; c < classes.size(); ++c) {
    wanted.push_back(shapes.of(*plans[c]));
    for (const uint32_t r : classes[c].ranks) {
      if (r >= class_of.size() || class_of[r] != none)
        return broken(l, fmt::format("rank {} is in no class or in two", r));
      class_of[r] = c;
    }
  }
  if (const auto missing = std::ranges::find(class_of, none); missing != class_of.end())
    return broken(l, fmt::format("rank {} is in no class", missing - class_of.begin()));
  for (uint32_t c = 0; c < plans.size(); ++c)
    if (plans[c]->rank >= class_of.size() || class_of[plans[c]->rank] != c)
      return broken(*plans[c], "it represents a class that its rank is not in");
  saved_once saved(l);
  for (uint32_t r = 0; r < class_of.size(); ++r) {
    const rank_plan& first = *plans[class_of[r]];
    const rank_plan made = part(r);
    if (shapes.of(made) != wanted[class_of[r]])
      return broken(made, fmt::format("is not of the class that rank {} represents", first.rank));
    const rank_plan& mine = r == first.rank ? first : made;
    TROUPE_TRY(own(mine, places));
    TROUPE_TRY(saved.take(mine, places));
  }
  return saved.end();
}

}  // namespace troupe::plan::rules
