// One rank's own part: its slices and states have room, and it updates exactly the elements that it owns.
#include <algorithm>

#include "plan/check/extents.hpp"
#include "plan/check/rules.hpp"
#include "plan/layout/own.hpp"
#include "plan/layout/rank_slices.hpp"

namespace troupe::plan::rules {
namespace {

core::result<void> offsets(const rank_plan& p) {
  const job_layout& l = *p.layout;
  const rank_slices mine(l, p.rank);
  if (p.offsets != offsets_of(l, p.rank))
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

// Every owned element is in exactly one sub-group, its moments where the layout has them.
core::result<void> owned(const rank_plan& p) {
  if (p.options().mode != mode::train) return {};
  const rank_slices own(*p.layout, p.rank);
  std::vector<std::vector<extent>> covered(p.table().parameters.size());
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
                             " that are another rank's, or keeps their moments elsewhere");
      covered[x.parameter].push_back({x.range.first, x.range.first + x.range.count});
      total += x.range.count;
    }
    if (total != g.elements) return broken(p, "a sub-group counts its elements wrongly");
    if (need != g.need) return broken(p, "a sub-group needs more or less than its parameters do");
  }
  for (uint32_t k = 0; k < groups_of_set.size(); ++k)
    if (groups_of_set[k] != (p.layout->matrix_sets[k].pipeline == p.layout->pipeline_at(p.rank) ? 1 : 0))
      return broken(p, "a matrix set is updated by " + std::to_string(groups_of_set[k]) + " sub-groups, wanted one");
  for (uint32_t q = 0; q < covered.size(); ++q) {
    uint64_t total = 0;
    for (const auto& x : covered[q]) total += x.end - x.first;
    const uint64_t wanted = own.state(q).count;
    if (total != wanted || !apart(covered[q], p.table().parameters[q].numel()))
      return broken(p, p.table().parameters[q].name + ": not every owned element is updated exactly once");
  }
  return {};
}

}  // namespace

core::result<void> own(const rank_plan& p) {
  for (auto rule : {offsets, owned, swap_layout, undo_copies})
    if (auto ok = rule(p); !ok) return ok;
  return {};
}

}  // namespace troupe::plan::rules
