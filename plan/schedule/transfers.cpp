#include "plan/schedule/transfers.hpp"

#include <algorithm>
#include <cassert>

#include "plan/schedule/progress.hpp"

namespace troupe::plan {

pipeline_table with_transfers(const pipeline_table& t) {
  pipeline_table out{t.micro_batches, t.rank_of_stage, {}};
  out.orders.resize(t.ranks());
  const auto transfer = [&](const action& a) {
    // True: the transfer is to the next stage; false: to the previous one.
    const bool up = a.type == action_type::forward;
    if (!computes(a.type) || a.type == action_type::backward_weight) return;
    if (up ? a.stage + 1 == t.stages() : a.stage == 0) return;
    const uint32_t to = up ? a.stage + 1 : a.stage - 1, from_rank = t.rank_of_stage[a.stage];
    if (t.rank_of_stage[to] == from_rank) return;
    out.orders[from_rank].push_back({up ? action_type::send_forward : action_type::send_backward, a.stage, a.micro});
    out.orders[t.rank_of_stage[to]].push_back(
        {up ? action_type::recv_forward : action_type::recv_backward, to, a.micro});
  };
  progress p(t);
  while (p.sweep([&](uint32_t rank, const action& a) {
    out.orders[rank].push_back(a);
    for_each_part(a, transfer);
  })) {
  }
  assert(p.done());
  return out;
}

pipeline_table computations_of(pipeline_table t) {
  for (auto& order : t.orders) std::erase_if(order, [](const action& a) { return !computes(a.type); });
  return t;
}

pipeline_table forward_through(const pipeline_table& t, uint32_t micro_batches) {
  pipeline_table out{micro_batches, t.rank_of_stage, {}};
  out.orders.resize(t.ranks());
  const uint32_t group = std::max(1U, t.ranks());
  for (uint32_t first = 0; first < micro_batches; first += group)
    for (uint32_t s = 0; s < t.stages(); ++s)
      for (uint32_t m = first; m < std::min(micro_batches, first + group); ++m)
        out.orders[t.rank_of_stage[s]].push_back({action_type::forward, s, m});
  return out;
}

pipeline_table with_whole_backwards(pipeline_table t) {
  for (auto& order : t.orders) {
    size_t kept = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      action a = order[i];
      if (a.type == action_type::backward_input && i + 1 < order.size() &&
          order[i + 1] == action{action_type::backward_weight, a.stage, a.micro}) {
        a.type = action_type::backward;
        ++i;
      }
      order[kept++] = a;
    }
    order.resize(kept);
  }
  return t;
}

}  // namespace troupe::plan
