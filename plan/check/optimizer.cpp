// Checks updates that need values of a whole parameter, such as its norm (LAMB) or its matrix (Muon): the
// instructions that prepare, exchange and use such a value exist exactly where they are needed, and each starts after
// the instruction whose result it reads.
#include <fmt/format.h>

#include "plan/check/rules.hpp"
#include "plan/layout/matrices.hpp"

namespace troupe::plan::rules {
namespace {

core::result<void> there(const rank_plan& p, uint32_t id, bool wanted, const std::string& what) {
  if (wanted && id == none) return broken(p, "nothing " + what);
  if (!wanted && id != none) return broken(p, id, "has nothing to do in this plan");
  return {};
}

// Checks that `prepare` waits for the vote and the update for `prepare`. Moments change in place, and before the vote
// it is not known whether they may; each update reads the prepared values.
core::result<void> is_prepared(const world& w, uint32_t rank, uint32_t g) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  const bool wanted = p.sub_groups[g].need != update_need::elements;
  TROUPE_TRY(there(p, r[kind::prepare][g], wanted, fmt::format("prepares sub-group {}", g)));
  if (!wanted) return {};
  TROUPE_TRY(in_order(w, rank, r.only(kind::vote), r[kind::prepare][g], "which says whether and how to"));
  return in_order(w, rank, r[kind::prepare][g], r[kind::update][g], "which prepares it");
}

core::result<void> norms_are_known(const world& w, uint32_t rank, bool meets) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  TROUPE_TRY(there(p, r.only(kind::measure), meets, "gathers the norms of parameters and updates"));
  if (!meets) return {};
  for (uint32_t g = 0; g < p.sub_groups.size(); ++g) {
    if (p.sub_groups[g].need != update_need::parameter_norms) continue;
    TROUPE_TRY(in_order(w, rank, r[kind::prepare][g], r.only(kind::measure), "whose square sums it carries"));
    TROUPE_TRY(in_order(w, rank, r.only(kind::measure), r[kind::update][g], "which brings the norms it needs"));
  }
  return {};
}

core::result<void> matrices_are_whole(const world& w, uint32_t rank, uint32_t g) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  const uint32_t k = p.sub_groups[g].matrices, slot = p.instructions[r[kind::prepare][g]].slots.matrices;
  const auto& set = p.layout->matrix_sets[k];
  const bool collects = collects_matrices(*p.layout);
  TROUPE_TRY(there(p, r[kind::collect][k], collects, "collects " + set.name));
  TROUPE_TRY(there(p, r[kind::orthogonalise][k], true, "makes " + set.name + " orthogonal"));
  TROUPE_TRY(there(p, r[kind::spread][k], true, "spreads " + set.name));
  if (slot == none) return broken(p, r[kind::prepare][g], "has no memory for its matrices");
  const buffer& memory = p.buffers[slot];
  if (memory.pool != pool::directions || memory.subject != k || memory.first != r[kind::prepare][g] ||
      memory.last != r[kind::update][g] ||
      memory.bytes != matrix_slot_elements(*p.layout, set) * core::size_of(p.options().master()))
    return broken(p, set.name + " has a buffer that is not its own: pool, set, size or life differ");
  uint32_t last = r[kind::prepare][g];
  for (uint32_t next : {r[kind::collect][k], r[kind::orthogonalise][k], r[kind::spread][k], r[kind::update][g]}) {
    if (next == none) continue;
    if (p.instructions[next].slots.matrices != slot) return broken(p, next, "does not use the buffer of its matrices");
    TROUPE_TRY(in_order(w, rank, last, next, "whose result it needs"));
    last = next;
  }
  return {};
}

}  // namespace

core::result<void> optimizer(const world& w, uint32_t rank) {
  const rank_plan& p = *w.ranks[rank];
  if (p.options().mode != mode::train) return {};
  for (uint32_t g = 0; g < p.sub_groups.size(); ++g) {
    TROUPE_TRY(is_prepared(w, rank, g));
    if (p.sub_groups[g].need == update_need::whole_matrix) {
      TROUPE_TRY(matrices_are_whole(w, rank, g));
    } else if (p.instructions[w.rolls[rank][kind::update][g]].slots.matrices != none) {
      return broken(p, w.rolls[rank][kind::update][g], "names a buffer that it does not need");
    }
  }
  return norms_are_known(w, rank, measures_norms(*p.layout));
}

}  // namespace troupe::plan::rules
