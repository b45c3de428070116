#include "plan/schedule/timing.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace troupe::plan {

namespace {

constexpr double not_yet = -1;

class player {
 public:
  player(const pipeline_table& t, const pipeline_costs& costs)
      : t_(t), costs_(costs), trains_(trains(t)), now_(t.ranks(), 0), kept_(t.ranks(), 0) {
    forward_end_.assign(size_t{t.stages()} * t.micro_batches, not_yet);
    backward_end_ = forward_end_;
    out_.ranks.resize(t.ranks());
    for (uint32_t r = 0; r < t.ranks(); ++r) out_.ranks[r].actions.reserve(t.orders[r].size());
  }

  table_timing run() {
    std::vector<uint32_t> part(t_.ranks(), 0);  // [rank]: 1 between forward and backward of an action of type overlap
    for (bool any = true; any;) {
      any = false;
      for (uint32_t r = 0; r < t_.ranks(); ++r)
        while (step(r, part[r])) any = true;
    }
    for (uint32_t r = 0; r < t_.ranks(); ++r) {
      auto& rank = out_.ranks[r];
      assert(rank.actions.size() == t_.orders[r].size() && part[r] == 0);
      if (rank.actions.empty()) continue;
      rank.end_s = now_[r];
      rank.idle_s = rank.end_s - rank.actions.front().start_s - rank.busy_s;
      out_.total_s = std::max(out_.total_s, rank.end_s);
    }
    return std::move(out_);
  }

 private:
  [[nodiscard]] size_t at(const action& a) const { return size_t{a.stage} * t_.micro_batches + a.micro; }

  // Runs the next action of the rank if its input has arrived; of an action of type overlap only the forward or, in a
  // later call, the backward.
  bool step(uint32_t r, uint32_t& part) {
    auto& spans = out_.ranks[r].actions;
    const size_t position = spans.size() - (part > 0 ? 1 : 0);
    if (position == t_.orders[r].size()) return false;
    const action& a = t_.orders[r][position];
    if (!computes(a.type)) {
      spans.push_back({now_[r], now_[r]});
      return true;
    }
    const bool pair = a.type == action_type::overlap;
    const action one = !pair       ? a
                       : part == 0 ? action{action_type::forward, a.stage, a.micro}
                                   : action{action_type::backward, a.backward_stage, a.backward_micro};
    const double from = may_start(one);
    if (from == not_yet) return false;
    const double start = std::max(now_[r], from);
    compute(r, one, start);
    if (part == 0) spans.push_back({start, now_[r]});
    spans.back().end_s = now_[r];
    part = pair && part == 0 ? 1 : 0;
    return true;
  }

  [[nodiscard]] double arrival(const std::vector<double>& ends, const action& a, uint32_t from) const {
    const double end = ends[size_t{from} * t_.micro_batches + a.micro];
    if (end == not_yet) return not_yet;
    return t_.rank_of_stage[from] == t_.rank_of_stage[a.stage] ? end : end + costs_.transfer_s;
  }
  // Returns the time when the input that `a` receives from a neighbouring stage arrives; 0 if it receives none. The
  // caller waits for earlier actions of the same rank.
  [[nodiscard]] double may_start(const action& a) const {
    if (a.type == action_type::forward) return a.stage == 0 ? 0 : arrival(forward_end_, a, a.stage - 1);
    if (a.type == action_type::backward_weight || a.stage + 1 == t_.stages()) return 0;
    return arrival(backward_end_, a, a.stage + 1);
  }

  void compute(uint32_t r, const action& a, double start) {
    const stage_cost& c = costs_.stages[a.stage];
    auto& rank = out_.ranks[r];
    const auto spend = [&](double s) {
      rank.busy_s += s;
      now_[r] = start + s;
    };
    const auto keep = [&](uint64_t more, uint64_t less) {
      kept_[r] += more;
      rank.peak_bytes = std::max(rank.peak_bytes, kept_[r]);
      kept_[r] -= less;
    };
    switch (a.type) {
      case action_type::forward:
        spend(c.forward_s);
        forward_end_[at(a)] = now_[r];
        return keep(c.activation_bytes, trains_ ? 0 : c.activation_bytes);
      case action_type::backward:
        spend(c.backward_input_s + c.backward_weight_s);
        backward_end_[at(a)] = now_[r];
        return keep(0, c.activation_bytes);
      case action_type::backward_input:
        spend(c.backward_input_s);
        backward_end_[at(a)] = now_[r];
        return keep(c.weight_part_bytes > c.activation_bytes ? c.weight_part_bytes - c.activation_bytes : 0,
                    c.activation_bytes > c.weight_part_bytes ? c.activation_bytes - c.weight_part_bytes : 0);
      default:
        spend(c.backward_weight_s);
        return keep(0, c.weight_part_bytes);
    }
  }

  const pipeline_table& t_;
  const pipeline_costs& costs_;
  bool trains_;
  std::vector<double> now_;     // [rank]: seconds at which the rank becomes free
  std::vector<uint64_t> kept_;  // [rank]: bytes that the rank keeps at this point
  // [stage * micro_batches + micro]: seconds at which the forward and the backward (or its input part) end.
  std::vector<double> forward_end_, backward_end_;
  table_timing out_;
};

}  // namespace

table_timing play_table(const pipeline_table& t, const pipeline_costs& costs) {
  assert(costs.stages.size() == t.stages());
  return player(t, costs).run();
}

std::vector<uint32_t> micros_in_flight(const pipeline_table& t) {
  std::vector<uint32_t> now(t.stages(), 0), out(t.stages(), trains(t) ? 0 : 1);
  if (!trains(t)) return out;
  for (const auto& order : t.orders)
    for (const action& a : order)
      for_each_part(a, [&](const action& part) {
        if (part.type == action_type::forward) out[part.stage] = std::max(out[part.stage], ++now[part.stage]);
        if (part.type == action_type::backward || part.type == action_type::backward_weight) --now[part.stage];
      });
  return out;
}

}  // namespace troupe::plan
