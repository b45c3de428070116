// Base of the classes that break a plan: chooses random positions, removes an instruction so that the rest stays
// consistent, and decides whether a change is harmless.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "plan/layout/saves.hpp"
#include "plan/place/arena.hpp"
#include "tests/plan/order_oracle.hpp"
#include "tests/plan/samples.hpp"

namespace troupe::plan {

using plans = std::vector<rank_plan>;

inline shared_plans shared(const plans& all) {
  shared_plans out;
  for (const auto& p : all) out.push_back(std::make_shared<const rank_plan>(p));
  return out;
}

/// A function that decides, from the final plans, whether a change is harmless.
using excuse = std::function<bool(const shared_plans&)>;

/// Changes one rank's plan at random positions.
class plan_changer {
 public:
  plan_changer(rank_plan& p, std::mt19937_64 random) : random_(random), p_(p) {}

  /// Removes instruction `id`. Instructions that waited for it wait for its dependencies instead; all later ids
  /// decrease by one.
  void remove(uint32_t id) {
    const instruction gone = p_.instructions[id];
    p_.instructions.erase(p_.instructions.begin() + id);
    const auto renumbered = [id](uint32_t i) { return i > id && i != none ? i - 1 : i; };
    for (auto& x : p_.instructions) {
      if (std::erase(x.after, id) > 0)
        for (uint32_t on : gone.after)
          if (std::find(x.after.begin(), x.after.end(), on) == x.after.end()) x.after.push_back(on);
      x.id = renumbered(x.id);
      for (auto& on : x.after) on = renumbered(on);
      if (gone.lane == lane::fabric && x.communicator == gone.communicator && x.sequence > gone.sequence) --x.sequence;
    }
    if (gone.lane == lane::fabric) --p_.num_collectives[gone.communicator];
    for (auto& l : p_.lanes) {
      std::erase(l, id);
      for (auto& i : l) i = renumbered(i);
    }
    for (auto& b : p_.buffers) {
      b.first = renumbered(b.first);
      b.last = renumbered(b.last);
    }
  }
  /// Returns true if `id` still starts after `on` has ended, in every branch, and every guarded collective still waits
  /// for the vote (the all-gather of gradient square sums).
  [[nodiscard]] bool implied(const shared_plans& now, uint32_t id, uint32_t on) const {
    for (const uint32_t waits : p_.instructions[id].after)
      if (p_.instructions[id].guard == guard::always && p_.instructions[waits].guard != guard::always) return false;
    for (const branch taken : {branch::not_skipped, branch::clipped, branch::skipped}) {
      const bool idle = p_.instructions[on].kind == kind::redo && !runs(p_.instructions[on], taken);
      if (runs(p_.instructions[id], taken) && !idle && !order_oracle(now, taken).before(p_.rank, on, p_.rank, id))
        return false;
    }
    return asks_after_the_vote(now);
  }
  /// Returns true if, for every two buffers that share bytes, all uses of the earlier one end before the later one
  /// begins, and the pools have the right sizes. Requires a plan in which every use is within its buffer's lifetime.
  [[nodiscard]] bool slots_hold(const shared_plans& now) const {
    const order_oracle order(now, branch::not_skipped);
    uint64_t peak[num_pools] = {};
    for (const auto& a : p_.buffers) {
      auto& most = peak[static_cast<size_t>(a.pool)];
      most = std::max(most, a.offset + a.bytes);
      if (a.offset % (a.pool == pool::staging ? save_grain_bytes : arena::alignment) != 0) return false;
      for (const auto& b : p_.buffers)
        if (&a != &b && a.pool == b.pool && a.first <= b.first && a.offset < b.offset + b.bytes &&
            b.offset < a.offset + a.bytes && !order.before(p_.rank, a.last, p_.rank, b.first))
          return false;
    }
    return std::equal(peak, peak + num_pools, p_.pool_bytes);
  }

  /// Returns true if every change is known to be harmless, and false if no change registered an excuse.
  [[nodiscard]] bool excused(const shared_plans& now) const {
    return !excuses_.empty() && std::all_of(excuses_.begin(), excuses_.end(), [&](const auto& e) { return e(now); });
  }

 protected:
  // Returns true if every guarded collective waits for the vote (the all-gather of gradient square sums), and the
  // vote waits for the last computation of its rank: by their own dependencies, or by the dependencies of an earlier
  // collective of the same communicator.
  [[nodiscard]] bool asks_after_the_vote(const shared_plans& now) const {
    const auto vote = std::ranges::find(p_.instructions, kind::vote, &instruction::kind);
    if (vote == p_.instructions.end()) return true;
    const auto& computed = p_.lanes[static_cast<size_t>(lane::compute)];
    for (const branch taken : {branch::not_skipped, branch::clipped}) {
      const order_oracle order(now, taken);
      const auto knows = [&](const instruction& x, uint32_t what) {
        return std::ranges::any_of(p_.instructions, [&](const instruction& y) {
          return y.lane == lane::fabric && y.communicator == x.communicator && y.sequence <= x.sequence &&
                 runs(y, taken) && std::ranges::any_of(y.after, [&](uint32_t on) {
                   return runs(p_.instructions[on], taken) && (on == what || order.before(p_.rank, what, p_.rank, on));
                 });
        });
      };
      if (!computed.empty() && !knows(*vote, computed.back())) return false;
      for (const instruction& x : p_.instructions)
        if (x.lane == lane::fabric && x.guard != guard::always && runs(x, taken) && !knows(x, vote->id)) return false;
    }
    return true;
  }
  // Returns a copy of the shared layout that only this rank's plan uses.
  job_layout& layout() {
    if (layout_ == nullptr) p_.layout = layout_ = std::make_shared<job_layout>(*p_.layout);
    return *layout_;
  }
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }
  instruction* any(auto wanted) {
    std::vector<instruction*> found;
    for (auto& x : p_.instructions)
      if (wanted(x)) found.push_back(&x);
    return found.empty() ? nullptr : found[below(found.size())];
  }
  std::vector<uint32_t>& any_lane() {
    std::vector<std::vector<uint32_t>*> found;
    for (auto& l : p_.lanes)
      if (!l.empty()) found.push_back(&l);
    return *found[below(found.size())];
  }
  bool drop(kind k) {
    auto* x = any([k](const instruction& i) { return i.kind == k; });
    if (x == nullptr) return false;
    remove(x->id);
    return true;
  }
  // Registers an excuse: the change is harmless if `id` still starts after `on`. Returns true.
  bool excused_if_implied(uint32_t id, uint32_t on) {
    excuses_.push_back([this, id, on](const shared_plans& now) { return implied(now, id, on); });
    return true;
  }

  std::mt19937_64 random_;
  rank_plan& p_;
  std::shared_ptr<job_layout> layout_;
  std::vector<excuse> excuses_;
};

}  // namespace troupe::plan
