// Compressed parameters: what a unit multiplies with instead of them is made for each use, from the parameters of that
// use, and lies in a slot of its own.
#include "plan/check/rules.hpp"

namespace troupe::plan::rules {
namespace {

core::result<void> copy_is_sound(const rank_plan& p, const instruction& x) {
  const buffer& b = p.buffers[x.compressed];
  if (p.layout->compressed[x.subject].numel == 0)
    return broken(p, x.id, "compresses a unit that has no compressed parameters");
  if (b.pool != pool::compressed || b.subject != x.subject || b.first != x.id ||
      b.bytes != p.layout->compressed_elements(x.subject) * core::size_of(p.options().types.parameter))
    return broken(p, x.id, "has a slot that is not its own: pool, unit, size or beginning differ");
  return {};
}

}  // namespace

core::result<void> compression(const world& w, uint32_t rank) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  for (const auto& x : p.instructions) {
    if (!runs(x, w.taken)) continue;
    if (x.kind == kind::compress) {
      if (auto ok = copy_is_sound(p, x); !ok) return ok;
      continue;
    }
    const bool reads = computes(x) && reads_parameters(x.use) && p.layout->compressed[x.subject].numel > 0;
    if (reads != (x.compressed != none))
      return broken(p, x.id,
                    reads ? "names no slot of its unit's compressed parameters" : "names a slot that it does not need");
    if (!reads) continue;
    const uint32_t made = r.compress[x.compressed];
    if (made == none || p.instructions[made].subject != x.subject)
      return broken(p, x.id, "names a slot that does not hold the compressed parameters of its unit");
    if (p.instructions[made].buffer != x.buffer)
      return broken(p, x.id, "does not read the parameters that " + name(p, made) + " has compressed");
    if (auto ok = in_order(w, rank, made, x.id, "which makes what it multiplies with"); !ok) return ok;
  }
  return {};
}

}  // namespace troupe::plan::rules
