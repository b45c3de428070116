// Checks compressed (quantised or pruned) parameters: each use of a unit reads a slot of compressed parameters that was
// filled from the same gathered parameters. A quantisation group that is split over tensor ranks is compressed with the
// value range over all of these ranks.
#include <vector>

#include "plan/check/rules.hpp"
#include "plan/layout/pieces.hpp"

namespace troupe::plan::rules {
namespace {

core::result<void> copy_is_sound(const rank_plan& p, const instruction& x) {
  const buffer& b = p.buffers[x.slots.compressed];
  if (p.layout->compressed[x.subject].numel == 0)
    return broken(p, x.id, "compresses a unit that has no compressed parameters");
  if (b.pool != pool::compressed || b.subject != x.subject || b.first != x.id ||
      b.bytes != p.layout->compressed_elements(x.subject) * core::size_of(p.options().types.parameter))
    return broken(p, x.id, "has a slot that is not its own: pool, unit, size or beginning differ");
  return {};
}

/// Checks that instruction `x` reads the value ranges that its tensor group has exchanged (kind::agree) if `wanted`,
/// and reads none otherwise. With the same ranges, all ranks of the group compute equal results.
core::result<void> reads_agreed(const world& w, uint32_t rank, const instruction& x, bool wanted) {
  const rank_plan& p = *w.ranks[rank];
  if (wanted != (x.slots.arrived != none))
    return broken(p, x.id,
                  wanted ? "names no ranges of the groups that tensor ranks share" : "names ranges it does not need");
  if (!wanted) return {};
  const uint32_t agreed = w.rolls[rank][kind::agree][x.slots.arrived];
  if (agreed == none || p.instructions[agreed].subject != x.subject)
    return broken(p, x.id, "names a slot that does not hold the agreed ranges of its unit");
  return in_order(w, rank, agreed, x.id, "which brings the ranges of the other ranks");
}

/// Checks a `survey`, the instruction that computes the value ranges of a unit's compressed groups, and its slot. If
/// ranges are exchanged twice in a step, the second survey must read the ranges that the first `agree` has exchanged.
core::result<void> survey_is_sound(const world& w, uint32_t rank, const instruction& x) {
  const rank_plan& p = *w.ranks[rank];
  const uint64_t bytes = p.options().compressed.range_bytes(x.subject) * p.options().mesh.tensor_ranks();
  const buffer& b = p.buffers[x.slots.leaving];
  if (bytes == 0) return broken(p, x.id, "computes ranges of a unit whose groups no ranks share");
  if (b.pool != pool::compressed || b.subject != x.subject || b.first != x.id || b.bytes != bytes)
    return broken(p, x.id, "has a slot that is not its own: pool, unit, size or beginning differ");
  if (x.slots.arrived == none) return {};
  if (!p.options().compressed.tells_twice(x.subject))
    return broken(p, x.id, "exchanges ranges a second time that need one exchange");
  return reads_agreed(w, rank, x, true);
}

core::result<void> agreement_is_sound(const world& w, uint32_t rank, const instruction& x) {
  const rank_plan& p = *w.ranks[rank];
  const uint32_t found = w.rolls[rank][kind::survey][x.slots.moved];
  if (found == none || p.instructions[found].subject != x.subject)
    return broken(p, x.id, "names a slot that does not hold the ranges of its unit");
  if (x.moved_bytes != p.buffers[x.slots.moved].bytes)
    return broken(p, x.id, "moves another number of bytes than the slot of ranges has");
  return in_order(w, rank, found, x.id, "which finds what it tells the others");
}

/// Checks that instruction `compress` reads the exchanged value ranges of its unit's groups that are split over
/// tensor ranks. If ranges are exchanged twice in a step, it must read the ranges of the second exchange.
core::result<void> ranges_are_agreed(const world& w, uint32_t rank, const instruction& x) {
  const rank_plan& p = *w.ranks[rank];
  const bool reads = p.options().compressed.range_bytes(x.subject) > 0;
  if (auto ok = reads_agreed(w, rank, x, reads); !ok || !reads) return ok;
  // id of the instruction `survey` that computed the value ranges in the slot which `x` reads
  const uint32_t told = w.rolls[rank][kind::survey][x.slots.arrived];
  if (p.options().compressed.tells_twice(x.subject) && (told == none || p.instructions[told].slots.arrived == none))
    return broken(p, x.id, "names ranges that were told once, and needs what is told then");
  return {};
}

}  // namespace

core::result<void> agreements(const job_layout& l, const collective_pieces& all) {
  for (uint32_t u = 0; u < l.table->units.size(); ++u) {
    const uint64_t each = l.options.compressed.range_bytes(u);
    if (each == 0) continue;
    const auto moved = all.agree(u);
    bool whole = moved.size() == l.options.mesh.tensor_ranks();
    for (uint32_t t = 0; whole && t < moved.size(); ++t) whole = moved[t] == moved_piece{t, t * each, t * each, each};
    if (!whole)
      return broken(l, l.table->units[u].name + ": ranges of compressed groups do not come whole to all ranks");
  }
  return {};
}

core::result<void> compression(const world& w, uint32_t rank) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  std::vector<bool> is_read(p.buffers.size());  // [slot]: true if some instruction reads the compressed parameters or
                                                // value ranges in the slot
  for (const auto& x : p.instructions) {
    if (!runs(x, w.taken)) continue;
    if (x.kind == kind::agree) is_read[x.slots.moved] = true;
    if (computes(x) && x.slots.compressed != none) is_read[x.slots.compressed] = true;
    if (x.kind == kind::compress) {
      TROUPE_TRY(copy_is_sound(p, x));
      TROUPE_TRY(ranges_are_agreed(w, rank, x));
      continue;
    }
    if (x.kind == kind::survey) TROUPE_TRY(survey_is_sound(w, rank, x));
    if (x.kind == kind::agree) TROUPE_TRY(agreement_is_sound(w, rank, x));
    const bool reads = computes(x) && reads_parameters(x.use) && p.layout->compressed[x.subject].numel > 0;
    if (reads != (x.slots.compressed != none))
      return broken(p, x.id,
                    reads ? "names no slot of its unit's compressed parameters" : "names a slot that it does not need");
    if (!reads) continue;
    const uint32_t made = r[kind::compress][x.slots.compressed];
    if (made == none || p.instructions[made].subject != x.subject)
      return broken(p, x.id, "names a slot that does not hold the compressed parameters of its unit");
    if (p.instructions[made].slots.parameters != x.slots.parameters)
      return broken(p, x.id, "does not read the parameters that " + name(p, made) + " has compressed");
    TROUPE_TRY(in_order(w, rank, made, x.id, "which makes what it multiplies with"));
  }
  // A compression that no instruction reads is an error: nothing would make it end before its parameters change.
  for (size_t slot = 0; slot < is_read.size(); ++slot) {
    if (r[kind::compress][slot] != none && !is_read[slot])
      return broken(p, r[kind::compress][slot], "compresses parameters for no instruction");
    if (r[kind::survey][slot] != none && !is_read[slot])
      return broken(p, r[kind::survey][slot], "finds ranges that no rank is told");
  }
  return {};
}

}  // namespace troupe::plan::rules
