// Checks slots and sizes: no byte of a pool is written before the last reader of its previous contents has ended, slots
// are inside their pools, and the plan's memory is within its budget.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "core/math.hpp"
#include "core/text.hpp"
#include "plan/check/rules.hpp"
#include "plan/memory_places.hpp"
#include "plan/place/arena.hpp"

namespace troupe::plan::rules {
namespace {

constexpr const char* pool_names[num_pools] = {"gathered parameters",
                                               "buckets",
                                               "update directions",
                                               "staging",
                                               "transfers",
                                               "compressed parameters",
                                               "windows onto states",
                                               "windows onto slices",
                                               "windows onto gradients",
                                               "offloaded activations"};

/// Returns the name of a slot for errors: "4096 bytes at 128 of the pool of buckets".
std::string name_of(const buffer& b) {
  return fmt::format("{} bytes at {} of the pool of {}", b.bytes, b.offset, pool_names[static_cast<size_t>(b.pool)]);
}

core::result<void> within(const rank_plan& p, uint64_t needed, uint64_t allowed, const std::string& budget,
                          const std::vector<owner_bytes>& owners) {
  if (allowed == 0 || needed <= allowed) return {};
  const auto largest = std::ranges::max_element(owners, {}, &owner_bytes::bytes);
  return core::fail(core::error_kind::limit,
                    fmt::format("rank {} needs {} ({} bytes), its {} is {} ({} bytes); most of it is {}, {}", p.rank,
                                core::human_bytes(needed), needed, budget, core::human_bytes(allowed), allowed,
                                largest->label(), core::human_bytes(largest->bytes)));
}

core::result<void> within_budgets(const rank_plan& p) {
  const auto& o = p.options();
  if (o.memory_budget_bytes == 0 && o.device_budget_bytes == 0) return {};
  const auto owners = owners_of(p.memory, o.tiers);
  std::vector<owner_bytes> of_device;
  std::ranges::copy_if(owners, std::back_inserter(of_device),
                       [](const owner_bytes& x) { return x.lies == tier::device; });
  TROUPE_TRY(within(p, budgeted_bytes(p.memory, o.tiers), o.memory_budget_bytes, "share of cluster.host_memory_budget", owners));
  return within(p, device_bytes(p.memory, o.tiers), o.device_budget_bytes, "share of cuda.memory_limit",
                of_device);
}

core::result<void> life_is_sound(const world& w, uint32_t rank, uint32_t b) {
  const rank_plan& p = *w.ranks[rank];
  const buffer& x = p.buffers[b];
  for (uint32_t id : w.rolls[rank].accessors[b]) {
    if (id != x.first && !w.before(rank, x.first, id))
      return broken(p, id, "uses " + name_of(x) + " without waiting for " + name(p, x.first) + ", which opens it");
    if (id != x.last && runs(p.instructions[x.last], w.taken) && !w.before(rank, id, x.last))
      return broken(p, x.last,
                    "ends the life of " + name_of(x) + " without waiting for " + name(p, id) + ", which uses them");
  }
  return {};
}

/// Records which buffer last occupied each byte of a pool, as ranges of bytes.
class holders {
 public:
  /// Calls f(buffer) for each buffer that last occupied a byte of [first, end), then records `next` for these bytes.
  core::result<void> take(uint64_t first, uint64_t end, uint32_t next, auto f) {
    split(first);
    split(end);
    auto it = runs_.lower_bound(first);
    for (; it != runs_.end() && it->first < end; it = runs_.erase(it))
      if (it->second != none) TROUPE_TRY(f(it->second));
    runs_[first] = next;
    return {};
  }

 private:
  // Splits the range that contains byte `at` into two. A range extends to the next key of the map.
  void split(uint64_t at) {
    auto it = runs_.upper_bound(at);
    const uint32_t holder = it == runs_.begin() ? none : std::prev(it)->second;
    runs_.try_emplace(at, holder);
  }
  std::map<uint64_t, uint32_t> runs_;
};

}  // namespace

// Checks that no slot is reused before its last reader has ended. For each byte it is enough to compare a buffer with
// the previous buffer that contains the byte: that buffer was compared with the one before it, and so on.
core::result<void> slots(const world& w, uint32_t rank) {
  const rank_plan& p = *w.ranks[rank];
  const auto& accessors = w.rolls[rank].accessors;
  std::vector<uint32_t> order;
  for (uint32_t b = 0; b < p.buffers.size(); ++b) {
    // A buffer whose first instruction has the guard `clipped` (the window of a repeated update) is used in clipped
    // steps only; every other buffer must be used in a step that is neither skipped nor clipped.
    const bool again = p.instructions[p.buffers[b].first].guard == guard::clipped;
    if (accessors[b].empty() && w.taken == (again ? branch::clipped : branch::not_skipped))
      return broken(p, "a buffer is never used");
    if (accessors[b].empty() || !runs(p.instructions[p.buffers[b].first], w.taken)) continue;
    TROUPE_TRY(life_is_sound(w, rank, b));
    order.push_back(b);
  }
  std::sort(order.begin(), order.end(),
            [&](uint32_t x, uint32_t y) { return p.buffers[x].first < p.buffers[y].first; });
  holders pools[num_pools];
  for (uint32_t b : order) {
    const buffer& x = p.buffers[b];
    if (x.bytes == 0) continue;
    const auto vacated = [&](uint32_t earlier) -> core::result<void> {
      if (p.buffers[earlier].first == x.first) return broken(p, x.first, "opens two buffers in the same bytes");
      for (uint32_t id : accessors[earlier])
        if (!w.before(rank, id, x.first))
          return broken(p, x.first,
                        "takes " + name_of(x) + " without waiting for " + name(p, id) + ", which still uses them");
      // The last instruction of a lifetime may read the bytes without naming the slot: the backward of a stage reads
      // the input of its forward.
      const uint32_t last = p.buffers[earlier].last;
      if (runs(p.instructions[last], w.taken) && !w.before(rank, last, x.first))
        return broken(p, x.first,
                      "takes " + name_of(x) + " without waiting for " + name(p, last) + ", which ends their life");
      return {};
    };
    TROUPE_TRY(pools[static_cast<size_t>(x.pool)].take(x.offset, x.offset + x.bytes, b, vacated));
  }
  return {};
}

core::result<void> memory(const rank_plan& p) {
  uint64_t peak[num_pools] = {};
  for (const auto& b : p.buffers) {
    if (b.offset % arena::alignment != 0)
      return broken(p, b.first, fmt::format("opens a buffer at byte {}, off its boundary", b.offset));
    auto& most = peak[static_cast<size_t>(b.pool)];
    most = std::max(most, b.offset + core::round_up(std::max<uint64_t>(b.bytes, 1), arena::alignment));
  }
  constexpr auto own = [](pool k) { return static_cast<size_t>(k); };
  const uint64_t said[num_pools] = {p.memory.gathered,
                                    p.memory.gradients,
                                    p.memory.directions,
                                    p.memory.staging,
                                    p.memory.transfers,
                                    p.memory.compressed,
                                    peak[own(pool::states)],
                                    peak[own(pool::shards)],
                                    p.memory.windows - peak[own(pool::states)] - peak[own(pool::shards)],
                                    p.memory.offloaded_activations};
  for (uint32_t k = 0; k < num_pools; ++k)
    if (p.pool_bytes[k] != peak[k] || said[k] != peak[k])
      return broken(p, fmt::format("the pool of {} needs {} bytes, it says {} and {}", pool_names[k], peak[k],
                                   p.pool_bytes[k], said[k]));
  if (p.memory.near_copies != p.offsets.near_elements * core::size_of(p.options().types.parameter))
    return broken(p, "its part of the second copy of parameters needs another number of bytes than it says");
  if (p.memory.undo != p.undo_bytes)
    return broken(p, fmt::format("undo copies need {} bytes, it says {}", p.undo_bytes, p.memory.undo));
  const auto& late = p.options().updates.late;
  if (late.on() && (late.select_interval == 0 || late.select_interval % late.update_interval != 0))
    return broken(p, "columns are chosen anew while gradients of the old choice are deferred");
  if (late.on() && p.options().tiers.swaps())
    return broken(p, "it defers gradients of parameters whose states are not in memory");
  if (p.memory.deferred != deferred_bytes(p))
    return broken(p, fmt::format("deferred gradients need {} bytes, it says {}", deferred_bytes(p), p.memory.deferred));
  return within_budgets(p);
}

}  // namespace troupe::plan::rules
