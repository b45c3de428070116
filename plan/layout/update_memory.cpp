#include "plan/layout/update_memory.hpp"

#include <algorithm>

#include "core/math.hpp"

namespace troupe::plan {

optimizer_bytes optimizer_bytes_of(const plan_options& o, const parameter_update& update) {
  const uint64_t state = core::size_of(o.master()), gradient = core::size_of(o.types.accumulation);
  const uint64_t copy = o.master_is_parameter() ? 0 : core::size_of(o.types.parameter), moments = update.moments;
  if (update.need == update_need::elements) return {.updated = state * 2 * (1 + moments) + gradient + copy};
  return {.prepared = state * (1 + 2 * moments) + gradient, .updated = state * (2 + moments) + copy};
}

uint64_t prepared_bytes(const job_layout& l, const sub_group& group) {
  uint64_t bytes = 0;
  for (const auto& x : group.pieces)
    bytes += x.range.count * optimizer_bytes_of(l.options, l.options.update_of(x.parameter)).prepared;
  return bytes;
}

uint64_t updated_bytes(const job_layout& l, const sub_group& group) {
  uint64_t bytes = 0;
  for (const auto& x : group.pieces)
    bytes += x.range.count * optimizer_bytes_of(l.options, l.options.update_of(x.parameter)).updated;
  return bytes;
}

uint64_t undo_bytes(const job_layout& l, const owned_piece& piece) {
  if (!l.options.updates.may_undo()) return 0;
  const auto rounded = [&](core::dtype type) {
    return core::round_up(piece.range.count * core::size_of(type), core::parameter_alignment_bytes);
  };
  const uint64_t states = 1 + l.options.update_of(piece.parameter).moments;
  return states * rounded(l.options.master()) +
         (l.options.master_is_parameter() ? 0 : rounded(l.options.types.parameter));
}

bool stays_beside_file(const job_layout& l, uint32_t parameter) {
  for (uint32_t set = 0; set < l.cached.size(); ++set)
    if (l.cached[set] &&
        std::ranges::any_of(l.gather_sets[set].parameters, [&](const auto& x) { return x.parameter == parameter; }))
      return true;
  return false;
}

uint64_t undo_bytes(const rank_plan& p, uint32_t group, const owned_piece& piece) {
  const job_layout& l = *p.layout;
  if (p.blocks.empty() || !l.options.updates.may_undo()) return undo_bytes(l, piece);
  const swap_block& b = p.blocks[group];
  const auto kept = [&](state_part x) {
    return core::round_up(piece.range.count * core::size_of(type_of(l, x)), core::parameter_alignment_bytes);
  };
  uint64_t bytes = b.holds(state_part::master) ? 0 : kept(state_part::master);
  for (uint32_t k = 0; k < l.options.update_of(piece.parameter).moments; ++k)
    bytes += b.holds(moment_part(k)) ? 0 : kept(moment_part(k));
  if (!l.options.master_is_parameter() && !b.holds(state_part::copy)) bytes += kept(state_part::copy);
  if (b.holds(weights_part(l)) && stays_beside_file(l, piece.parameter)) bytes += kept(weights_part(l));
  return bytes;
}

bool may_speculate(const job_layout& l) {
  return !l.options.tiers.swaps() || l.options.tiers.two_places || !l.options.updates.may_undo();
}

void place_undo_copies(rank_plan& p) {
  p.undo_offset.assign(p.sub_groups.size(), no_undo);
  p.undo_bytes = 0;
  if (!p.options().updates.speculate || !may_speculate(*p.layout)) return;
  for (uint32_t g = 0; g < p.sub_groups.size(); ++g) {
    if (p.sub_groups[g].need != update_need::elements) continue;  // norms and matrices come after the vote
    p.undo_offset[g] = p.undo_bytes;
    for (const auto& piece : p.sub_groups[g].pieces) p.undo_bytes += undo_bytes(p, g, piece);
  }
}

}  // namespace troupe::plan
