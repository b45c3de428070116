// Rewrites a plan as if its generator had written it in another order.
#pragma once

#include <vector>

#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Reorders the instructions of `p` to the serial order given as ids, and renumbers them.
inline void reorder(rank_plan& p, const std::vector<uint32_t>& order) {
  std::vector<uint32_t> number(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) number[order[i]] = i;
  std::vector<instruction> moved;
  for (auto& l : p.lanes) l.clear();
  for (uint32_t id : order) {
    moved.push_back(p.instructions[id]);
    auto& x = moved.back();
    x.id = number[id];
    for (auto& on : x.after) on = number[on];
    p.lanes[static_cast<size_t>(x.lane)].push_back(x.id);
  }
  p.instructions = std::move(moved);
  for (auto& b : p.buffers) {
    b.first = number[b.first];
    b.last = number[b.last];
  }
}

}  // namespace troupe::plan
