// Checks that parameters are gathered before computation reads them and released after it, and that the plan states
// the largest number of elements that are gathered at a time.
#include <fmt/format.h>

#include <algorithm>

#include "plan/check/rules.hpp"

namespace troupe::plan::rules {
namespace {

core::result<void> gather_is_sound(const world& w, uint32_t rank, const instruction& x, uint32_t compute_before) {
  const rank_plan& p = *w.ranks[rank];
  const buffer& b = p.buffers[x.slots.parameters];
  const uint64_t wanted = p.layout->gather_sets[x.subject].elements * core::size_of(p.options().types.parameter);
  if (b.pool != pool::gathered || b.subject != x.subject || b.bytes != wanted || b.first != x.id)
    return broken(p, x.id, "has a buffer that is not its own: pool, set, size or beginning differ");
  const uint32_t release = w.rolls[rank][kind::release][x.slots.parameters];
  if (release == none) return broken(p, x.id, "is never released");
  if (p.instructions[release].subject != x.subject || b.last != release)
    return broken(p, release, "does not end the life of the buffer that " + name(p, x.id) + " has filled");
  if (compute_before == none) return {};
  return in_order(w, rank, compute_before, x.id,
                  "so more parameters could be resident at once than the prefetch limits allow");
}

core::result<void> use_is_sound(const world& w, uint32_t rank, const instruction& x, uint32_t set, uint32_t held) {
  const rank_plan& p = *w.ranks[rank];
  const uint32_t gather = w.rolls[rank][kind::gather][held];
  if (gather == none || p.instructions[gather].subject != set)
    return broken(p, x.id, "names a buffer that does not hold " + p.layout->gather_sets[set].name);
  TROUPE_TRY(in_order(w, rank, gather, x.id, "which brings its parameters"));
  return in_order(w, rank, x.id, w.rolls[rank][kind::release][held], "which reads what it gives back");
}

}  // namespace

core::result<void> residency(const world& w, uint32_t rank) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  const uint32_t persistent_set = p.layout->persistent_set(p.rank);
  const auto& kept = r.gathers_of[persistent_set];
  const bool keeps = p.layout->gathers() && p.layout->gather_sets[persistent_set].numel > 0;
  if (kept.size() != (keeps ? 1 : 0))
    return broken(p, fmt::format("the persistent parameters are gathered {} times", kept.size()));
  uint64_t live = 0, peak = 0;
  uint32_t compute_before = none;
  for (const auto& x : p.instructions) {
    if (!runs(x, w.taken)) continue;
    if (x.kind == kind::gather) {
      TROUPE_TRY(gather_is_sound(w, rank, x, compute_before));
      live += p.layout->gather_sets[x.subject].numel;
      peak = std::max(peak, live);
    }
    if (x.kind == kind::release) {
      if (r[kind::gather][x.slots.parameters] == none) return broken(p, x.id, "gives back what was never gathered");
      TROUPE_TRY(in_order(w, rank, r[kind::gather][x.slots.parameters], x.id, "which fills what it gives back"));
      live -= p.layout->gather_sets[x.subject].numel;
    }
    if (x.lane == lane::compute) compute_before = x.id;
    if (!computes(x) && x.kind != kind::survey && x.kind != kind::compress) continue;
    const bool gathered = p.layout->gathers() && reads_parameters(x.use) && p.layout->gather_sets[x.subject].numel > 0;
    if (gathered != (x.slots.parameters != none))
      return broken(p, x.id, gathered ? "names no buffer of its parameters" : "names a buffer that it does not need");
    if (!reads_parameters(x.use)) continue;
    if (gathered) TROUPE_TRY(use_is_sound(w, rank, x, x.subject, x.slots.parameters));
    const auto& reads = p.table().units[x.subject].parameters;
    if (keeps && std::any_of(reads.begin(), reads.end(), [&](uint32_t q) { return p.layout->persistent[q]; }))
      TROUPE_TRY(use_is_sound(w, rank, x, persistent_set, p.instructions[kept[0]].slots.parameters));
  }
  if (p.layout->gathers() && peak != p.peak_live_elements)
    return broken(p, fmt::format("at most {} gathered elements live at once, it says {}", peak, p.peak_live_elements));
  return {};
}

}  // namespace troupe::plan::rules
