#include "plan/passes/residency.hpp"

#include <algorithm>

namespace troupe::plan {

std::vector<unit_use> make_uses(const rank_plan& p) {
  std::vector<unit_use> out;
  const auto units = static_cast<uint32_t>(p.table().units.size());
  for (uint32_t m = 0; m < p.options().accumulation; ++m) {
    for (uint32_t u = 0; u < units; ++u) out.push_back({u, m, use::forward});
    if (p.options().mode != mode::train) continue;
    for (uint32_t u = units; u-- > 0;) out.push_back({u, m, use::backward});
  }
  return out;
}

residency plan_residency(const rank_plan& p) {
  residency out;
  out.uses = make_uses(p);
  const auto n = static_cast<uint32_t>(out.uses.size());
  out.gathers_at.assign(n, {});
  out.gathered_for.assign(n, none);
  out.release_after.assign(n, false);
  if (!p.layout->gathers()) return out;

  const auto numel = [&](uint32_t use) { return p.layout->gather_sets[out.uses[use].unit].numel; };
  std::vector<uint32_t> live(p.table().units.size(), none);       // [unit]: the use whose gather made it resident
  std::vector<uint32_t> wanted_until(p.table().units.size(), 0);  // [unit]: latest use a fetch or prefetch looked at
  uint64_t live_elements = 0;
  uint32_t looked_at = 0;  // uses below are fetched or found resident

  const auto fetch = [&](uint32_t at, uint32_t use) {
    const uint32_t unit = out.uses[use].unit;
    wanted_until[unit] = std::max(wanted_until[unit], use);
    if (live[unit] != none) return;
    live[unit] = use;
    live_elements += numel(use);
    out.gathers_at[at].push_back(use);
  };
  const auto reused_soon = [&](uint32_t at) {
    uint64_t distance = 0;
    for (uint32_t k = at + 1; k < n; ++k) {
      if (distance >= p.options().max_reuse_distance) return false;
      if (out.uses[k].unit == out.uses[at].unit) return true;
      distance += numel(k);
    }
    return false;
  };

  const uint64_t prefetch = p.options().overlap ? p.options().prefetch_bucket : 0;
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t unit = out.uses[i].unit;
    if (numel(i) > 0) {
      fetch(i, i);
      out.gathered_for[i] = live[unit];
    }
    looked_at = std::max(looked_at, i + 1);
    const uint64_t room = p.options().max_live > live_elements ? p.options().max_live - live_elements : 0;
    const uint64_t budget = std::min(room, prefetch);
    for (uint64_t taken = 0; taken < budget && looked_at < n; ++looked_at) {
      if (numel(looked_at) == 0) continue;
      if (live[out.uses[looked_at].unit] == none) taken += numel(looked_at);
      fetch(i, looked_at);
    }
    out.peak_live_elements = std::max(out.peak_live_elements, live_elements);
    if (live[unit] == none || wanted_until[unit] > i || reused_soon(i)) continue;
    live[unit] = none;
    live_elements -= numel(i);
    out.release_after[i] = true;
  }
  // What reuse would have kept beyond the step is stale after the update: release it at its last use.
  for (uint32_t unit = 0; unit < live.size(); ++unit) {
    if (live[unit] == none) continue;
    for (uint32_t i = n; i-- > 0;)
      if (out.uses[i].unit == unit) {
        out.release_after[i] = true;
        break;
      }
  }
  out.peak_live_elements += p.layout->persistent_parameters().numel;
  return out;
}

}  // namespace troupe::plan
