// Checks speculative updates, which run before the vote: each reads completely reduced gradients and overwrites nothing
// that is still read. A step that is skipped or clipped restores each from an undo copy of its own, and a clipped step
// then repeats each once. There are no undo copies if no step can be skipped or clipped, and none for states in files,
// since an update writes these to a second place in the file.
#include <fmt/format.h>

#include <algorithm>

#include "plan/check/rules.hpp"
#include "plan/layout/update_memory.hpp"

namespace troupe::plan::rules {
namespace {

core::result<void> reads_whole_gradients(const world& w, uint32_t rank, uint32_t g) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  for (const auto& x : p.sub_groups[g].pieces) {
    const uint32_t reduced = r.last_reduce(*p.layout, p.layout->bucket_of[x.parameter]);
    if (reduced == none) return broken(p, r[kind::update][g], "has no gradient to read");
    TROUPE_TRY(in_order(w, rank, reduced, r[kind::update][g], "whose result it reads"));
  }
  return {};
}

// Checks that the update of sub-group `g`, if it runs before the vote, is undone if the vote skips the step or clips
// gradients, and in no other case.
core::result<void> is_taken_back(const world& w, uint32_t rank, uint32_t g) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  const bool clips = w.taken == branch::clipped && p.options().updates.may_clip;
  const bool wanted = p.speculates(g) && (clips || w.taken == branch::skipped);
  if (!wanted && r[kind::undo][g] != none) return broken(p, r[kind::undo][g], "undoes an update that has to stay");
  if (!wanted) return {};
  if (r[kind::undo][g] == none)
    return broken(p, r[kind::update][g],
                  clips ? "is not undone though the vote clips its gradients"
                        : "is not undone though the vote finds an overflow");
  TROUPE_TRY(in_order(w, rank, r.only(kind::vote), r[kind::undo][g], "which says whether to"));
  return in_order(w, rank, r[kind::update][g], r[kind::undo][g], "which it undoes");
}

// Checks that, if the vote clips, an update before the vote is undone and done again with clipped gradients. The kind
// of an instruction (update or redo) determines the factor of its gradients.
core::result<void> is_done_again(const world& w, uint32_t rank, uint32_t g) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  const bool wanted = w.taken == branch::clipped && p.options().updates.may_clip && p.speculates(g);
  if (!wanted && r[kind::redo][g] != none) return broken(p, r[kind::redo][g], "updates a second time");
  if (!wanted) return {};
  if (r[kind::redo][g] == none)
    return broken(p, r[kind::undo][g], "is not followed by an update with clipped gradients");
  return in_order(w, rank, r[kind::undo][g], r[kind::redo][g], "which restores what it changes");
}

// Checks that publishes wait for the last undo. If a run does not skip steps whose gradients are not finite, the undo
// fails in such a step and ends the run before any rank publishes updated parameters.
core::result<void> is_published_only_if_sound(const rank_plan& p) {
  uint32_t last = none;
  for (uint32_t id : p.lanes[static_cast<size_t>(lane::shard)])
    if (p.instructions[id].kind == kind::undo) last = id;
  if (last == none) return {};
  for (const auto& x : p.instructions)
    if (x.kind == kind::publish && std::find(x.after.begin(), x.after.end(), last) == x.after.end())
      return broken(p, x.id, "does not wait for " + name(p, last) + ", which fails where a gradient is not finite");
  return {};
}

}  // namespace

core::result<void> undo_copies(const rank_plan& p) {
  uint64_t reached = 0;
  for (uint32_t g = 0; g < p.sub_groups.size(); ++g) {
    if (!p.speculates(g)) continue;
    if (!p.options().updates.speculate || !may_speculate(*p.layout) || p.sub_groups[g].need != update_need::elements)
      return broken(p, fmt::format("sub-group {} is updated before the vote but may not be", g));
    if (p.undo_offset[g] != reached)
      return broken(
          p, fmt::format("the undo copy of sub-group {} starts at byte {}, wanted {}", g, p.undo_offset[g], reached));
    for (const auto& piece : p.sub_groups[g].pieces) reached += undo_bytes(p, g, piece);
  }
  if (p.undo_bytes != reached)
    return broken(p, fmt::format("undo copies take {} bytes, it says {}", reached, p.undo_bytes));
  return {};
}

core::result<void> speculation(const world& w, uint32_t rank) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  for (uint32_t g = 0; g < p.sub_groups.size(); ++g) {
    if (p.speculates(g) && r[kind::update][g] == none) return broken(p, fmt::format("nothing updates sub-group {}", g));
    TROUPE_TRY(is_taken_back(w, rank, g));
    TROUPE_TRY(is_done_again(w, rank, g));
    if (!p.speculates(g)) continue;
    if (p.instructions[r[kind::update][g]].guard != guard::always)
      return broken(p, r[kind::update][g], "is guarded, though it is to run before the vote");
    TROUPE_TRY(reads_whole_gradients(w, rank, g));
    TROUPE_TRY(overwrites_nothing_needed(w, rank, g));
  }
  return is_published_only_if_sound(p);
}

}  // namespace troupe::plan::rules
