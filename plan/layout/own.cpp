#include "plan/layout/own.hpp"

#include <algorithm>

#include "core/math.hpp"
#include "plan/layout/activation_extents.hpp"
#include "plan/layout/layout.hpp"
#include "plan/layout/saves.hpp"
#include "plan/layout/update_memory.hpp"

namespace troupe::plan {
namespace {

void place_moments(rank_plan& p, const rank_slices& mine) {
  const auto parameters = static_cast<uint32_t>(p.table().parameters.size());
  for (auto& of_moment : p.moment_offset) of_moment.reserve(parameters);
  for (uint32_t q = 0; q < parameters; ++q) {
    const uint64_t elements = core::round_up(mine.state(q).count, core::parameter_grain);
    const uint32_t moments = p.options().update_of(q).moments;
    for (uint32_t k = 0; k < max_moments; ++k) {
      p.moment_offset[k].push_back(p.moment_elements[k]);
      if (k < moments) p.moment_elements[k] += elements;
    }
  }
}

// Makes the sub-groups of a rank whose states are swapped: each sub-group has the elements of one block of the swap
// file.
void make_swapped_sub_groups(rank_plan& p) {
  for (const auto& b : p.blocks) {
    if (b.frozen) continue;
    sub_group g;
    g.pieces = b.pieces;
    for (const auto& x : b.pieces) g.elements += x.range.count;
    p.sub_groups.push_back(std::move(g));
  }
}

// Makes sub-groups if states are not swapped. Parameters are added to a sub-group until it has at least
// update_options::sub_group elements, so it may exceed that limit by less than one parameter.
void make_sub_groups(rank_plan& p, const rank_slices& mine) {
  sub_group open;
  const auto add = [&](sub_group& to, uint32_t q) {
    const slice range = mine.state(q);
    if (range.count == 0) return;
    to.pieces.push_back({q, range, p.offsets.state[q]});
    to.elements += range.count;
    to.need = std::max(to.need, p.layout->need_of(q));
  };
  for (uint32_t q = 0; q < p.table().parameters.size(); ++q) {
    if (p.layout->need_of(q) == update_need::whole_matrix) continue;
    add(open, q);
    if (open.elements >= p.options().updates.sub_group) {
      p.sub_groups.push_back(std::move(open));
      open = {};
    }
  }
  if (!open.pieces.empty()) p.sub_groups.push_back(std::move(open));
  // The collectives of a matrix set need all ranks, so each rank has a sub-group for it, which may be empty.
  for (uint32_t k = 0; k < p.layout->matrix_sets.size(); ++k) {
    if (p.layout->matrix_sets[k].pipeline != p.options().mesh.pipeline_at(p.rank)) continue;
    sub_group g;
    for (const auto& x : p.layout->matrix_sets[k].parameters) add(g, x.parameter);
    g.need = update_need::whole_matrix;
    g.matrices = k;
    p.sub_groups.push_back(std::move(g));
  }
}

}  // namespace

rank_offsets offsets_of(const rank_slices& mine) {
  rank_offsets out;
  const job_layout& l = mine.layout();
  const auto parameters = static_cast<uint32_t>(l.table->parameters.size());
  const bool linear = l.options.tiers.swaps();
  out.shard.reserve(parameters);
  out.state.reserve(parameters);
  for (uint32_t q = 0; q < parameters; ++q) {
    out.shard.push_back(out.shard_elements);
    out.shard_elements += core::round_up(mine.of(q).count, core::parameter_grain);
    if (linear) continue;
    // The entry of a frozen parameter is not used, because it has no states.
    out.state.push_back(out.state_elements);
    out.state_elements += core::round_up(mine.state(q).count, core::parameter_grain);
  }
  for (const auto& set : l.gather_sets) {
    out.near.push_back(out.near_elements);
    if (!l.options.has_near_copies()) continue;
    for (const auto& x : set.parameters)
      out.near_elements += core::round_up(mine.near(x.parameter).count, core::parameter_grain);
  }
  if (linear) lay_out_linear(l, mine.rank(), out);
  return out;
}

rank_plan own_part(std::shared_ptr<const job_layout> layout, uint32_t rank) {
  rank_plan p;
  p.layout = std::move(layout);
  p.rank = rank;
  const rank_slices mine(*p.layout, rank);
  p.offsets = offsets_of(mine);
  place_moments(p, mine);
  if (p.options().tiers.swaps()) make_swap_blocks(p);
  place_activations(p);
  if (p.options().saving.on) p.snapshots = snapshot_blocks(mine);
  if (p.options().mode != mode::train) return p;
  p.options().tiers.swaps() ? make_swapped_sub_groups(p) : make_sub_groups(p, mine);
  place_undo_copies(p);
  return p;
}

}  // namespace troupe::plan
