// Base of the classes that break plans of several ranks: finds instructions on any rank, removes, repeats or moves
// them, copies the shared layout, and decides whether a change is harmless.
#pragma once

#include <optional>

#include "tests/plan/plan_changer.hpp"

namespace troupe::plan {

class plan_breaker {
 public:
  /// Returns true if the change is known to be harmless.
  [[nodiscard]] bool excused(const shared_plans& now) const { return excuse_ && excuse_(now); }

 protected:
  plan_breaker(plans& all, std::mt19937_64& random) : random_(random), all_(all) {}

  /// The position of an instruction: its rank and its index in that rank's plan.
  struct place {
    uint32_t rank = 0, id = 0;
  };

  static const job_layout& layout_of(const plans& all) { return *all.front().layout; }
  instruction& at(const place& x) { return all_[x.rank].instructions[x.id]; }
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }

  std::optional<place> any(auto wanted) {
    std::vector<place> out;
    for (const auto& p : all_)
      for (const auto& x : p.instructions)
        if (wanted(x)) out.push_back({p.rank, x.id});
    return out.empty() ? std::nullopt : std::optional(out[below(out.size())]);
  }
  std::optional<place> any_of(uint32_t rank, auto wanted) {
    std::vector<place> out;
    for (const auto& x : all_[rank].instructions)
      if (wanted(x)) out.push_back({rank, x.id});
    return out.empty() ? std::nullopt : std::optional(out[below(out.size())]);
  }

  void remove(const place& x) { plan_changer(all_[x.rank], random_).remove(x.id); }
  /// Removes from `x` all dependencies for which `wanted` is true. The change counts as harmless if `x` still starts
  /// after each of them. Returns false if there was none.
  bool wait_for_none(const place& x, auto wanted) {
    const auto& p = all_[x.rank];
    std::vector<uint32_t> gone;
    for (const uint32_t on : at(x).after)
      if (wanted(p.instructions[on])) gone.push_back(on);
    std::erase_if(at(x).after, [&](uint32_t on) { return wanted(p.instructions[on]); });
    excuse_ = [this, x, gone](const shared_plans& now) {
      const plan_changer s(all_[x.rank], random_);
      return std::ranges::all_of(gone, [&](uint32_t on) { return s.implied(now, x.id, on); });
    };
    return !gone.empty();
  }
  /// Appends a copy of the instruction to its lane.
  void append_again(const place& x) {
    auto& p = all_[x.rank];
    instruction again = at(x);
    again.id = static_cast<uint32_t>(p.instructions.size());
    if (again.lane == lane::fabric) again.sequence = p.num_collectives[again.communicator]++;
    p.lanes[static_cast<size_t>(again.lane)].push_back(again.id);
    p.instructions.push_back(std::move(again));
  }
  /// Returns the instruction of `rank` that has this sequence number in this communicator.
  place found(uint32_t rank, uint32_t communicator, uint32_t sequence) {
    return *any_of(rank,
                   [&](const instruction& i) { return i.communicator == communicator && i.sequence == sequence; });
  }
  /// Moves a collective to another communicator and renumbers both, as if the plan had been generated so; its position
  /// in its lane stays.
  void move_to(const place& x, uint32_t communicator) {
    auto& p = all_[x.rank];
    auto& moved = at(x);
    --p.num_collectives[moved.communicator];
    ++p.num_collectives[communicator];
    moved.communicator = communicator;
    std::vector<uint32_t> next(p.num_collectives.size(), 0);
    for (const uint32_t id : p.lanes[static_cast<size_t>(lane::fabric)])
      p.instructions[id].sequence = next[p.instructions[id].communicator]++;
  }
  /// Replaces the layout of all plans by one shared copy, and returns the copy for changes.
  job_layout& own_layout() {
    auto own = std::make_shared<job_layout>(layout_of(all_));
    for (auto& p : all_) p.layout = own;
    return *own;
  }

  std::mt19937_64& random_;
  plans& all_;
  excuse excuse_;
};

}  // namespace troupe::plan
