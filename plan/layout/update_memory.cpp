#include "plan/layout/update_memory.hpp"

#include "core/math.hpp"

namespace troupe::plan {

uint64_t updated_bytes(const job_layout& l, const sub_group& group) {
  return group.elements * (6 * sizeof(float) + core::size_of(l.options.types.accumulation) +
                           (l.options.master_is_parameter() ? 0 : core::size_of(l.options.types.parameter)));
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

bool may_speculate(const job_layout& l) {
  return !l.options.tiers.swaps() || (!l.options.updates.may_undo() && !l.swaps_gradients());
}

void place_undo_copies(rank_plan& p) {
  p.undo_offset.assign(p.sub_groups.size(), no_undo);
  p.undo_bytes = 0;
  if (!p.options().updates.speculate || !may_speculate(*p.layout)) return;
  for (uint32_t g = 0; g < p.sub_groups.size(); ++g) {
    if (p.sub_groups[g].need != update_need::elements) continue;  // others need collectives after the vote
    p.undo_offset[g] = p.undo_bytes;
    for (const auto& piece : p.sub_groups[g].pieces) p.undo_bytes += undo_bytes(*p.layout, piece);
  }
}

}  // namespace troupe::plan
