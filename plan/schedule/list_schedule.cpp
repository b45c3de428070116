#include "plan/schedule/list_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace troupe::plan {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

class list_player {
 public:
  list_player(const pipeline_problem& p, const list_policy& policy)
      : p_(p), policy_(policy), stages_(static_cast<uint32_t>(p.rank_of_stage.size())) {
    ranks_.resize(p.ranks);
    chunks_.resize(stages_);
    for (uint32_t s = 0; s < stages_; ++s) {
      ranks_[p.rank_of_stage[s]].stages.push_back(s);
      ranks_[p.rank_of_stage[s]].one_micro_bytes += room(s);
      chunks_[s].forward_at.assign(p.micro_batches, s == 0 ? 0 : never);
      chunks_[s].backward_at.assign(p.micro_batches, never);
    }
    out_ = {p.micro_batches, p.rank_of_stage, std::vector<std::vector<action>>(p.ranks)};
  }

  std::optional<pipeline_table> run() {
    for (const auto& r : ranks_)
      if (r.one_micro_bytes > p_.memory_bytes) return {};
    while (true) {
      uint32_t r = 0;
      for (uint32_t q = 1; q < p_.ranks; ++q)
        if (ranks_[q].decides_at < ranks_[r].decides_at) r = q;
      if (ranks_[r].decides_at == never) break;
      decide(r);
    }
    for (const auto& c : chunks_)
      if (c.weights < p_.micro_batches) return {};
    return std::move(out_);
  }

 private:
  struct chunk {
    uint32_t forwards = 0, inputs = 0, weights = 0;  // numbers of F, I (input part) and W (weight part) begun
    std::vector<double> forward_at, backward_at;     // [micro]: seconds at which the inputs of F and I arrive
  };
  struct rank_state {
    std::vector<uint32_t> stages;
    double decides_at = 0, free_at = 0;
    uint64_t kept_bytes = 0, one_micro_bytes = 0;
    bool forward_was_last = false;
  };
  struct choice {
    uint32_t stage = none;
    double at = never;
    [[nodiscard]] bool now(double t) const { return stage != none && at <= t; }
  };

  [[nodiscard]] uint64_t room(uint32_t s) const {
    return std::max(p_.costs->stages[s].activation_bytes, p_.costs->stages[s].weight_part_bytes);
  }

  // True if rank `r` may start the next forward of stage `s`: enough memory remains to finish the rank's oldest
  // micro-batch, and the stage has fewer micro-batches in flight than the policy allows (list_policy::ahead).
  [[nodiscard]] bool may_keep(const rank_state& r, uint32_t s) const {
    const uint64_t room_bytes = room(s);
    if (r.kept_bytes + room_bytes > p_.memory_bytes) return false;
    const uint32_t micro = chunks_[s].forwards;
    uint32_t oldest = micro;
    for (const uint32_t q : r.stages) oldest = std::min(oldest, chunks_[q].inputs);
    if (micro == oldest) return true;
    if (chunks_[s].forwards - chunks_[s].inputs >= std::max(1.0, std::ceil(policy_.ahead * (stages_ - s))))
      return false;
    uint64_t of_oldest = 0;
    for (const uint32_t q : r.stages)
      if (chunks_[q].inputs == oldest && chunks_[q].forwards > oldest) of_oldest += room(q);
    return r.kept_bytes - of_oldest + room_bytes + r.one_micro_bytes <= p_.memory_bytes;
  }

  // Returns the next forward of a rank: the policy's first choice among the forwards whose input has arrived at time
  // `t`; if there is none, the forward whose input arrives first. next_backward() returns the next backward.
  [[nodiscard]] choice next_forward(const rank_state& r, double t) const {
    choice best;
    for (const uint32_t s : r.stages) {
      const chunk& c = chunks_[s];
      if (c.forwards == p_.micro_batches || c.forward_at[c.forwards] == never || !may_keep(r, s)) continue;
      const double at = std::max(t, c.forward_at[c.forwards]);
      const bool wins = policy_.deep_first || best.stage == none || c.forwards < chunks_[best.stage].forwards;
      if (at < best.at || (at == best.at && wins)) best = {s, at};
    }
    return best;
  }
  [[nodiscard]] choice next_backward(const rank_state& r, double t) const {
    choice best;
    for (const uint32_t s : r.stages) {
      const chunk& c = chunks_[s];
      if (c.inputs == c.forwards || c.backward_at[c.inputs] == never) continue;
      const double at = std::max(t, c.backward_at[c.inputs]);
      if (at < best.at || (at == best.at && c.inputs <= chunks_[best.stage].inputs)) best = {s, at};
    }
    return best;
  }
  // Returns the stage of a rank's oldest weight part, and the number of weight parts that wait.
  [[nodiscard]] std::pair<uint32_t, uint32_t> waiting_weights(const rank_state& r) const {
    uint32_t best = none, count = 0;
    for (const uint32_t s : r.stages) {
      count += chunks_[s].inputs - chunks_[s].weights;
      if (chunks_[s].inputs == chunks_[s].weights) continue;
      if (best == none || chunks_[s].weights <= chunks_[best].weights) best = s;
    }
    return {best, count};
  }

  void decide(uint32_t rank) {
    auto& r = ranks_[rank];
    const double t = r.decides_at;
    const choice b = next_backward(r, t), f = next_forward(r, t);
    const auto [w, waiting] = waiting_weights(r);
    const bool many = w != none && policy_.weights_waiting && waiting > *policy_.weights_waiting * rank;
    const bool forward_first = policy_.prefers == list_policy::turn::forward_first ||
                               (policy_.prefers == list_policy::turn::alternate && !r.forward_was_last);
    if (b.now(t) && !(forward_first && f.now(t) && !many)) return backward(rank, b.stage);
    if (many) return weight(rank, w);
    if (f.now(t)) return forward(rank, f.stage);
    const double comes_at = std::min(b.at, f.at);
    if (w != none && t + (1 - policy_.late) * p_.costs->stages[w].backward_weight_s <= comes_at) return weight(rank, w);
    r.decides_at = comes_at;  // the rank decides earlier if another input arrives
  }

  void spend(uint32_t rank, const action& a, double s) {
    auto& r = ranks_[rank];
    r.free_at = r.decides_at += s;
    out_.orders[rank].push_back(a);
  }
  // Makes the input of stage `to` available when `rank` has ended its latest action, or one transfer later if `to` is
  // on another rank.
  void deliver(uint32_t rank, uint32_t to, double& at) {
    const uint32_t other = p_.rank_of_stage[to];
    at = ranks_[rank].free_at + (other == rank ? 0 : p_.costs->transfer_s);
    auto& r = ranks_[other];
    if (r.decides_at > at) r.decides_at = std::max(r.free_at, at);
  }
  void forward(uint32_t rank, uint32_t s) {
    const uint32_t micro = chunks_[s].forwards++;
    spend(rank, {action_type::forward, s, micro}, p_.costs->stages[s].forward_s);
    ranks_[rank].kept_bytes += room(s);
    ranks_[rank].forward_was_last = true;
    if (s + 1 == stages_)
      chunks_[s].backward_at[micro] = ranks_[rank].free_at;
    else
      deliver(rank, s + 1, chunks_[s + 1].forward_at[micro]);
  }
  void backward(uint32_t rank, uint32_t s) {
    const uint32_t micro = chunks_[s].inputs++;
    spend(rank, {action_type::backward_input, s, micro}, p_.costs->stages[s].backward_input_s);
    ranks_[rank].kept_bytes -= room(s) - p_.costs->stages[s].weight_part_bytes;
    ranks_[rank].forward_was_last = false;
    if (s > 0) deliver(rank, s - 1, chunks_[s - 1].backward_at[micro]);
  }
  void weight(uint32_t rank, uint32_t s) {
    const uint32_t micro = chunks_[s].weights++;
    spend(rank, {action_type::backward_weight, s, micro}, p_.costs->stages[s].backward_weight_s);
    ranks_[rank].kept_bytes -= p_.costs->stages[s].weight_part_bytes;
  }

  const pipeline_problem& p_;
  const list_policy& policy_;
  uint32_t stages_;
  std::vector<rank_state> ranks_;
  std::vector<chunk> chunks_;  // [stage]: progress of the stage
  pipeline_table out_;
};

}  // namespace

std::vector<list_policy> list_policies(bool several_chunks) {
  std::vector<list_policy> out;
  for (const auto prefers :
       {list_policy::turn::backward_first, list_policy::turn::alternate, list_policy::turn::forward_first})
    for (const double ahead : {1e9, 1.0, 1.5})
      for (const std::optional<double> waiting : {std::optional<double>(), std::optional(1.0)})
        for (const double late : {0.0, 0.5, 1.0}) {
          out.push_back({prefers, waiting, late, ahead, true});
          if (several_chunks) out.push_back({prefers, waiting, late, ahead, false});
        }
  return out;
}

std::optional<pipeline_table> list_schedule(const pipeline_problem& p, const list_policy& policy) {
  return list_player(p, policy).run();
}

}  // namespace troupe::plan
