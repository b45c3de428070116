// Checks the way from gradients to new parameters: each gradient bucket is reduced after all its contributions are
// written, its norm enters the vote once, updates run after the vote, and parameters are overwritten and published only
// after their last reader and their last update.
#include <fmt/format.h>

#include <algorithm>

#include "plan/check/rules.hpp"
#include "plan/layout/buckets.hpp"
#include "plan/vote_layout.hpp"

namespace troupe::plan::rules {
namespace {

/// Returns, for each bucket, the segments that write gradients to it, as indices in one micro-batch's row of
/// roll::backward.
std::vector<std::vector<uint32_t>> writers_of(const rank_plan& p, const roll& r) {
  std::vector<std::vector<uint32_t>> out(p.layout->buckets.size());
  const auto all = contributions(p.table());
  for (uint32_t q = 0; q < all.size(); ++q)
    for (const auto& c : all[q]) out[p.layout->bucket_of[q]].push_back(r.segment_base[c.unit] + c.segment);
  for (auto& w : out) {
    std::sort(w.begin(), w.end());
    w.erase(std::unique(w.begin(), w.end()), w.end());
  }
  return out;
}

core::result<void> bucket_is_reduced(const world& w, uint32_t rank, uint32_t b, const std::vector<uint32_t>& writers) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  const uint32_t micros = p.options().accumulation, row = b * micros;
  uint32_t last = none;
  std::vector<uint32_t> done;  // micro-batches in the order in which they complete the bucket's gradients
  for (uint32_t k = 0; k < micros; ++k) {
    const uint32_t m = done.emplace_back(p.layout->nth_micro(b, k));
    const uint32_t held = p.bucket_buffer[row + m];
    const buffer& memory = p.buffers[held];
    if (memory.pool != pool::buckets || memory.subject != b ||
        memory.bytes != p.layout->buckets[b].elements * core::size_of(p.options().bucket_type()))
      return broken(p, p.layout->buckets[b].name + " has a buffer that is not its own: pool, bucket or size differ");
    if (p.options().buckets_stay() && held != p.bucket_buffer[row])
      return broken(p, p.layout->buckets[b].name + " stays for the whole step but has several buffers");
    for (uint32_t before = 0; before < k && !p.options().buckets_stay(); ++before)
      if (held == p.bucket_buffer[row + done[before]])
        return broken(
            p, p.layout->buckets[b].name + " has one buffer for several micro-batches but is reduced after each");
    const uint32_t reduce = r[kind::reduce][row + m];
    const bool wanted = !p.options().buckets_stay() || k + 1 == micros;
    if (!wanted && reduce != none) return broken(p, reduce, "comes before all micro-batches are summed");
    if (!wanted) continue;
    if (reduce == none)
      return broken(p, fmt::format("{} is not reduced after micro-batch {}", p.layout->buckets[b].name, m));
    if (p.instructions[reduce].slots.gradients != held) return broken(p, reduce, "does not read its bucket's buffer");
    for (uint32_t n = p.options().buckets_stay() ? 0 : k; n <= k; ++n)
      for (uint32_t writer : writers)
        TROUPE_TRY(in_order(w, rank, r.writer(done[n] * r.num_segments + writer), reduce, "which writes to it"));
    if (last != none) TROUPE_TRY(in_order(w, rank, last, reduce, "to whose sum it adds"));
    last = reduce;
  }
  if (p.bucket_window[b] != p.instructions[last].slots.window)
    return broken(p, last, "does not leave its sums in the window that its bucket says");
  const uint32_t norm = r[kind::norm][b];
  if (!is_voted_on(*p.layout, b))
    return norm == none ? core::result<void>{}
                        : broken(p, norm, "counts the gradient of a tied parameter in the vote a second time");
  if (norm == none || p.instructions[norm].micro + 1 != micros)
    return broken(p, p.layout->buckets[b].name + " has no norm of the whole step");
  TROUPE_TRY(in_order(w, rank, last, norm, "whose result it reads"));
  return in_order(w, rank, norm, r.only(kind::vote), "whose square sums it carries");
}

// Returns the id of the update of sub-group `g` whose result the step keeps: the redo, if there is one.
uint32_t last_update(const roll& r, uint32_t g) {
  return r[kind::redo][g] != none ? r[kind::redo][g] : r[kind::update][g];
}

// Checks that no backward overlaps with a reduction, which overlap_comm: false forbids.
core::result<void> does_not_overlap(const world& w, uint32_t rank) {
  const rank_plan& p = *w.ranks[rank];
  uint32_t last = none;
  for (const auto& x : p.instructions) {
    if (x.kind == kind::reduce) last = x.id;
    if (row_of(x.kind).work == unit_work::backward && last != none)
      TROUPE_TRY(in_order(w, rank, last, x.id, "though overlap_comm is off"));
  }
  return {};
}

}  // namespace

core::result<void> gradients(const world& w, uint32_t rank) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  if (p.options().mode == mode::generate) return {};
  if (r.only(kind::vote) == none) return broken(p, "there is no vote");
  // The compute lane runs one instruction at a time: a vote that waits for its last instruction waits for all losses
  // and for all readers of parameters.
  const auto& computed = p.lanes[static_cast<size_t>(lane::compute)];
  if (!computed.empty())
    if (!starts_after(w, rank, computed.back(), r.only(kind::vote)))
      return broken(
          p, r.only(kind::vote),
          "does not wait for " + name(p, computed.back()) + ", so losses or readers of parameters may come after it");
  if (p.options().mode != mode::train) return {};
  const auto writers = writers_of(p, r);
  for (uint32_t b = 0; b < p.layout->buckets.size(); ++b)
    if (p.layout->buckets[b].pipeline == p.options().mesh.pipeline_at(p.rank))
      TROUPE_TRY(bucket_is_reduced(w, rank, b, writers[b]));
  return p.options().overlap ? core::result<void>{} : does_not_overlap(w, rank);
}

core::result<void> overwrites_nothing_needed(const world& w, uint32_t rank, uint32_t g) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  const uint32_t update = r[kind::update][g];
  std::vector<uint32_t> units;
  bool persistent = false;
  for (const auto& x : p.sub_groups[g].pieces) {
    units.insert(units.end(), w.units_of[x.parameter].begin(), w.units_of[x.parameter].end());
    persistent = persistent || p.layout->persistent[x.parameter];
  }
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  if (!p.layout->gathers()) {
    for (uint32_t u : units)
      if (r.last_use[u] != none)
        TROUPE_TRY(in_order(w, rank, r.last_use[u], update, "which reads the parameters it overwrites"));
    return {};
  }
  // A gather ends when it has ended on all members, so an update after it cannot overwrite slices that peers still
  // read.
  if (persistent) units.push_back(p.layout->persistent_set(p.rank));
  for (uint32_t u : units)
    for (uint32_t gather : r.gathers_of[u])
      TROUPE_TRY(in_order(w, rank, gather, update, "which reads the slices it overwrites"));
  return {};
}

core::result<void> updates(const world& w, uint32_t rank) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  for (uint32_t g = 0; g < r[kind::update].size(); ++g) {
    const uint32_t update = r[kind::update][g];
    if (update == none) return broken(p, fmt::format("nothing updates sub-group {}", g));
    if (p.speculates(g)) continue;  // an update before the vote: speculation.cpp checks it
    TROUPE_TRY(in_order(w, rank, r.only(kind::vote), update, "which says whether and how to"));
    TROUPE_TRY(overwrites_nothing_needed(w, rank, g));
  }
  return {};
}

core::result<void> publishes(const world& w) {
  for (uint32_t rank = 0; rank < w.ranks.size(); ++rank) {
    const rank_plan& p = *w.ranks[rank];
    const roll& r = w.rolls[rank];
    std::vector<uint32_t> set_of(p.table().parameters.size(), none);
    for (uint32_t k = 0; k < p.layout->publish_sets.size(); ++k) {
      if (p.layout->publish_sets[k].pipeline != p.options().mesh.pipeline_at(p.rank)) continue;
      if (r[kind::publish][k] == none) return broken(p, "nothing publishes " + p.layout->publish_sets[k].name);
      for (const auto& x : p.layout->publish_sets[k].parameters) {
        set_of[x.parameter] = k;
        for (uint32_t u : w.units_of[x.parameter])
          if (r.last_use[u] != none)
            TROUPE_TRY(in_order(w, rank, r.last_use[u], r[kind::publish][k], "which reads the data it overwrites"));
      }
    }
    if (p.layout->publish_sets.empty()) continue;
    for (uint32_t g = 0; g < p.sub_groups.size(); ++g)
      for (const auto& x : p.sub_groups[g].pieces)
        TROUPE_TRY(
            in_order(w, rank, last_update(r, g), r[kind::publish][set_of[x.parameter]], "whose result it publishes"));
  }
  return {};
}

}  // namespace troupe::plan::rules
