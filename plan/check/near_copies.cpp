// Checks the second copy of parameters (hpZ of ZeRO++): for each unit it is stored once a step, from parameters that
// were gathered from all shards, and read only after that.
#include "plan/check/rules.hpp"
#include "plan/layout/layout.hpp"

namespace troupe::plan::rules {
namespace {

core::result<void> belongs(const rank_plan& p, const instruction& x) {
  if (!p.options().has_near_copies() || p.options().mode != mode::train || x.subject >= p.table().units.size())
    return broken(p, x.id, "uses a second copy of parameters that there is not");
  if (x.kind == kind::release &&
      x.moved_bytes != near_elements(p, x.subject) * core::size_of(p.options().types.parameter))
    return broken(p, x.id, "keeps the wrong number of bytes");
  return {};
}

}  // namespace

core::result<void> near_copies(const world& w, uint32_t rank) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  std::vector<uint32_t> keeps(p.table().units.size(), none);
  for (const auto& x : p.instructions) {
    if (!x.near) continue;
    TROUPE_TRY(belongs(p, x));
    if (x.kind != kind::release) continue;
    // Storing the copy twice would overwrite bytes that other ranks may be reading.
    if (keeps[x.subject] != none) return broken(p, x.id, "keeps again what " + name(p, keeps[x.subject]) + " has kept");
    keeps[x.subject] = x.id;
    const uint32_t gather = r[kind::gather][x.slots.parameters];
    if (gather == none || p.instructions[gather].near) return broken(p, x.id, "keeps what it had from the second copy");
  }
  for (const auto& x : p.instructions) {
    if (!x.near || x.kind != kind::gather) continue;
    if (keeps[x.subject] == none) return broken(p, x.id, "reads a second copy that nothing makes");
    TROUPE_TRY(in_order(w, rank, keeps[x.subject], x.id, "which makes the copy that it reads"));
  }
  return {};
}

}  // namespace troupe::plan::rules
