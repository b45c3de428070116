// Simulates the ranks of a pipeline table, one action after another, as dependencies allow. Owns the rule of which
// action waits for which; the checks of a table, the places of its sends and receives, and its times are computed from
// the order in which the actions run.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/action.hpp"

namespace troupe::plan {

/// Records which actions of a pipeline table each rank has done so far; the next action of a rank is its head. The
/// table must have valid stages and micro-batches, and may be wrong in every other respect.
class progress {
 public:
  explicit progress(const pipeline_table& t)
      : t_(t), next_(t.ranks(), 0), forwards_(size_t{t.stages()} * t.micro_batches, 0), backwards_(forwards_) {
    for (const auto& order : t.orders)
      for (const action& a : order) transfers_ = transfers_ || moves(a.type);
  }

  [[nodiscard]] bool ended(uint32_t rank) const { return next_[rank] == t_.orders[rank].size(); }
  [[nodiscard]] bool done() const {
    for (uint32_t r = 0; r < t_.ranks(); ++r)
      if (!ended(r)) return false;
    return true;
  }
  [[nodiscard]] size_t position(uint32_t rank) const { return next_[rank]; }
  [[nodiscard]] const action& head(uint32_t rank) const { return t_.orders[rank][next_[rank]]; }

  /// Returns the action that must be done before the rank's next action; an action of type overlap without a stage if
  /// the next action may run.
  [[nodiscard]] action awaited(uint32_t rank) const {
    action out{action_type::overlap};
    for_each_part(head(rank), [&](const action& part) {
      if (out.type == action_type::overlap) out = awaited_by(part);
    });
    return out;
  }
  [[nodiscard]] bool ready(uint32_t rank) const { return awaited(rank).type == action_type::overlap; }

  void advance(uint32_t rank) {
    for_each_part(head(rank), [&](const action& part) { mark(part); });
    ++next_[rank];
  }

  /// Runs the next action of each rank for which ready() is true, in the order of ranks, and calls `visit(rank,
  /// action)` before the action counts as done. Returns false if no rank's next action may run.
  bool sweep(auto&& visit) {
    bool any = false;
    for (uint32_t r = 0; r < t_.ranks(); ++r) {
      if (ended(r) || !ready(r)) continue;
      visit(r, head(r));
      advance(r);
      any = true;
    }
    return any;
  }

 private:
  enum : uint8_t { computed = 1, sent = 2, received = 4 };

  [[nodiscard]] size_t at(uint32_t stage, uint32_t micro) const { return size_t{stage} * t_.micro_batches + micro; }
  [[nodiscard]] bool crosses(uint32_t a, uint32_t b) const { return t_.rank_of_stage[a] != t_.rank_of_stage[b]; }

  void mark(const action& a) {
    if (!has_micro(a.type)) return;
    using enum action_type;
    uint8_t &f = forwards_[at(a.stage, a.micro)], &b = backwards_[at(a.stage, a.micro)];
    if (a.type == forward) f |= computed;
    if (a.type == send_forward) f |= sent;
    if (a.type == recv_forward) f |= received;
    if (a.type == backward || a.type == backward_input) b |= computed;
    if (a.type == send_backward) b |= sent;
    if (a.type == recv_backward) b |= received;
  }

  // Returns the action that provides the value which stage `a.stage` reads from the neighbouring stage, if that action
  // is not done yet: the neighbour's computation, or this rank's receive if the table has transfers. Returns an action
  // of type overlap, for which no action ever waits, if it is done.
  [[nodiscard]] action awaited_from(uint32_t neighbour, const action& a, bool is_forward) const {
    using enum action_type;
    const auto& done = is_forward ? forwards_ : backwards_;
    if (transfers_ && crosses(neighbour, a.stage)) {
      if ((done[at(a.stage, a.micro)] & received) == 0)
        return {is_forward ? recv_forward : recv_backward, a.stage, a.micro};
    } else if ((done[at(neighbour, a.micro)] & computed) == 0) {
      return {is_forward ? forward : backward, neighbour, a.micro};
    }
    return {overlap};
  }

  [[nodiscard]] action awaited_by(const action& a) const {
    using enum action_type;
    if (!has_micro(a.type)) return {overlap};
    const uint8_t f = forwards_[at(a.stage, a.micro)], b = backwards_[at(a.stage, a.micro)];
    switch (a.type) {
      case forward:
        return a.stage == 0 ? action{overlap} : awaited_from(a.stage - 1, a, true);
      case backward:
      case backward_input:
        if ((f & computed) == 0) return {forward, a.stage, a.micro};
        return a.stage + 1 == t_.stages() ? action{overlap} : awaited_from(a.stage + 1, a, false);
      case backward_weight:
        return (b & computed) == 0 ? action{backward_input, a.stage, a.micro} : action{overlap};
      case send_forward:
        return (f & computed) == 0 ? action{forward, a.stage, a.micro} : action{overlap};
      case send_backward:
        return (b & computed) == 0 ? action{backward, a.stage, a.micro} : action{overlap};
      case recv_forward:
        return (forwards_[at(a.stage - 1, a.micro)] & sent) == 0 ? action{send_forward, a.stage - 1, a.micro}
                                                                 : action{overlap};
      case recv_backward:
        return (backwards_[at(a.stage + 1, a.micro)] & sent) == 0 ? action{send_backward, a.stage + 1, a.micro}
                                                                  : action{overlap};
      default:
        return {overlap};
    }
  }

  const pipeline_table& t_;
  bool transfers_ = false;
  std::vector<size_t> next_;                   // [rank]: position of the rank's next action
  std::vector<uint8_t> forwards_, backwards_;  // [stage * micro_batches + micro]: bits computed, sent, received
};

}  // namespace troupe::plan
