#include "plan/choose/waits.hpp"

namespace troupe::plan {

wait_graph::wait_graph(rank_plans ranks, double latency_s)
    : plans_(ranks), latency_s_(latency_s), ranks_(ranks.size()), collectives_(ranks[0]->layout->communicators.size()) {
  for (uint32_t r = 0; r < ranks.size(); ++r) prepare(r);
}

void wait_graph::prepare(uint32_t rank) {
  const auto& p = plan_of(rank);
  auto& s = ranks_[rank];
  const size_t n = p.instructions.size();
  s.unmet.assign(n, 0);
  s.ready_s.assign(n, 0);
  s.behind.assign(n, none);
  s.dependents.resize(n);
  for (const auto& x : p.instructions)
    for (const uint32_t on : x.after) {
      s.dependents[on].push_back(x.id);
      ++s.unmet[x.id];
    }
  std::vector<uint32_t> last(num_lanes + collectives_.size(), none);
  for (const auto& order : p.lanes)
    for (const uint32_t id : order) {
      const auto& x = p.instructions[id];
      const bool collective = x.lane == lane::fabric;
      uint32_t& before = last[collective ? num_lanes + x.communicator : static_cast<size_t>(x.lane)];
      if (before != none) {
        s.behind[before] = id;
        ++s.unmet[id];
      }
      before = id;
      if (!collective) continue;
      auto& all = collectives_[x.communicator];
      if (all.size() <= x.sequence) all.resize(x.sequence + 1);
      ++all[x.sequence].members;
    }
}

}  // namespace troupe::plan
