#include "order_oracle.hpp"

#include <algorithm>
#include <map>

namespace troupe::plan {

order_oracle::order_oracle(rank_plans ranks, branch taken) : ranks_(ranks) {
  uint32_t n = 0;
  for (const auto& p : ranks) {
    base_.push_back(n);
    n += static_cast<uint32_t>(p->instructions.size());
  }
  uint32_t collectives = 0;
  for (uint32_t c = 0; c < ranks[0]->num_collectives.size(); ++c) {
    first_collective_.push_back(2 * n + collectives);
    uint32_t most = 0;
    for (const auto& p : ranks) most = std::max(most, p->num_collectives[c]);
    collectives += most;
  }
  next_.resize(2 * n + collectives);
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    const rank_plan& p = *ranks[r];
    for (const auto& x : p.instructions) {
      if (!runs(x, taken)) continue;
      edge(start(r, x.id), x.lane == lane::fabric ? collective(x) : end(r, x.id));
      if (x.lane == lane::fabric) edge(collective(x), end(r, x.id));
      for (uint32_t on : x.after)
        if (runs(p.instructions[on], taken)) edge(end(r, on), start(r, x.id));
    }
    for (uint32_t l = 0; l < num_lanes; ++l) {
      const auto which = static_cast<lane>(l);
      const bool one_at_a_time = which != lane::control && which != lane::fabric && which != lane::io;
      std::map<uint32_t, uint32_t> last;  // the last instruction of the lane, by communicator
      for (uint32_t id : p.lanes[l]) {
        const auto& x = p.instructions[id];
        if (!runs(x, taken)) continue;
        const auto before = last.find(x.communicator);
        if (before != last.end()) edge(one_at_a_time ? end(r, before->second) : start(r, before->second), start(r, id));
        last[x.communicator] = id;
      }
    }
  }
}

uint32_t order_oracle::acts(uint32_t r, uint32_t id) const {
  const auto& x = ranks_[r]->instructions[id];
  return x.lane == lane::fabric ? collective(x) : start(r, id);
}

bool order_oracle::before(uint32_t ra, uint32_t a, uint32_t rb, uint32_t b) const {
  const auto& x = ranks_[ra]->instructions[a];
  const uint32_t from = x.lane == lane::fabric ? collective(x) : end(ra, a), to = acts(rb, b);
  if (from == to) return false;
  std::vector<bool> seen(next_.size(), false);
  std::vector<uint32_t> todo{from};
  while (!todo.empty()) {
    const uint32_t at = todo.back();
    todo.pop_back();
    if (at == to) return true;
    if (seen[at]) continue;
    seen[at] = true;
    todo.insert(todo.end(), next_[at].begin(), next_[at].end());
  }
  return false;
}

}  // namespace troupe::plan
