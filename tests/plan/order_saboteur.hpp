// Breaks the instructions of a valid plan and their order: dependencies, lanes, collectives.
#pragma once

#include <array>

#include "tests/plan/plan_changer.hpp"

namespace troupe::plan {

/// Changes the order of one rank's plan. Each change is at one random position, and returns false if the plan has no
/// position for it.
class order_saboteur : public plan_changer {
 public:
  using plan_changer::plan_changer;

  bool drop_dependency() {
    auto* x = any([](const instruction& i) { return !i.after.empty(); });
    if (x == nullptr) return false;
    const auto at = x->after.begin() + static_cast<long>(below(x->after.size()));
    const uint32_t on = *at;
    x->after.erase(at);
    return excused_if_implied(x->id, on);
  }
  bool redirect_dependency() {
    auto* x = any([](const instruction& i) { return !i.after.empty(); });
    if (x == nullptr) return false;
    uint32_t& on = x->after[below(x->after.size())];
    const uint32_t old = std::exchange(on, static_cast<uint32_t>(below(x->id)));
    excuses_.push_back([](const shared_plans& now) {  // harmless only if no ranks now wait for each other in a cycle
      return std::ranges::all_of(std::array{branch::not_skipped, branch::clipped, branch::skipped},
                                 [&](branch b) { return happens_before::build(now, b).has_value(); });
    });
    return excused_if_implied(x->id, old);
  }
  bool wait_in_a_circle() {
    auto* x = any([](const instruction& i) { return !i.after.empty(); });
    if (x == nullptr) return false;
    p_.instructions[x->after[below(x->after.size())]].after.push_back(x->id);
    return true;
  }
  bool drop_instruction() {
    remove(static_cast<uint32_t>(below(p_.instructions.size())));
    return true;
  }
  bool drop_release() { return drop(kind::release); }
  bool drop_norm() { return drop(kind::norm); }
  bool drop_what_an_update_needs() {
    auto* x = any([](const instruction& i) {
      return i.kind == kind::prepare || i.kind == kind::measure || i.kind == kind::collect ||
             i.kind == kind::orthogonalise || i.kind == kind::spread;
    });
    if (x == nullptr) return false;
    remove(x->id);
    return true;
  }
  bool repeat_instruction() {
    instruction again = p_.instructions[below(p_.instructions.size())];
    again.id = static_cast<uint32_t>(p_.instructions.size());
    if (again.lane == lane::fabric) again.sequence = p_.num_collectives[again.communicator]++;
    if (below(2) == 0) again.micro = static_cast<uint32_t>(below(p_.options().accumulation));
    p_.lanes[static_cast<size_t>(again.lane)].push_back(again.id);
    p_.instructions.push_back(std::move(again));
    return true;
  }
  // Changes the subject, micro-batch or segment of an instruction. Skips votes, guarded instructions, gathers and
  // releases, whose micro-batch is only a label.
  bool change_what_is_done() {
    auto* x = any([](const instruction& i) {
      return i.kind != kind::vote && i.guard == guard::always && i.kind != kind::gather && i.kind != kind::release;
    });
    if (x == nullptr) return false;
    switch (below(3)) {
      case 0:
        ++x->subject;
        break;
      case 1:
        ++x->micro;
        break;
      default:
        if (x->kind != kind::forward && x->kind != kind::backward) return false;
        ++x->segment;
    }
    return true;
  }
  bool change_subject() {
    instruction& x = p_.instructions[below(p_.instructions.size())];
    x.subject = below(2) == 0 ? x.subject + 1 : x.subject - 1;
    return true;
  }
  bool change_guard() {
    auto& x = p_.instructions[below(p_.instructions.size())];
    x.guard = x.guard == guard::always ? guard::not_skipped : guard::always;
    return true;
  }
  bool drop_a_weight_part() { return drop(kind::backward_weight); }
  bool repeat_a_weight_part() {
    auto* x = any([](const instruction& i) { return i.kind == kind::backward_weight; });
    if (x == nullptr) return false;
    auto* y = any([x](const instruction& i) {
      return i.kind == kind::backward_weight && i.subject == x->subject && i.segment == x->segment &&
             i.micro != x->micro;
    });
    if (y == nullptr) return false;
    y->micro = x->micro;
    return true;
  }
  // Swaps the weight part of a backward with its input part, as if the plan generator had confused the two.
  bool weigh_before_the_input_part() {
    auto* x = any([](const instruction& i) { return i.kind == kind::backward_weight; });
    if (x == nullptr) return false;
    auto* input = any([x](const instruction& i) {
      return i.kind == kind::backward && i.subject == x->subject && i.segment == x->segment && i.micro == x->micro;
    });
    std::swap(static_cast<operation&>(*x), static_cast<operation&>(*input));
    return true;
  }
  bool reduce_before_a_weight_part() {
    const auto waits_for = [this](uint32_t on) { return p_.instructions[on].kind == kind::backward_weight; };
    auto* x =
        any([&](const instruction& i) { return i.kind == kind::reduce && std::ranges::any_of(i.after, waits_for); });
    if (x == nullptr) return false;
    // The dependency on this weight part is removed from all reductions, because a reduction also waits for the
    // previous reduction.
    const uint32_t part = *std::ranges::find_if(x->after, waits_for);
    for (auto& i : p_.instructions)
      if (i.kind == kind::reduce) std::erase(i.after, part);
    return true;
  }
  bool swap_collectives() {
    auto& order = p_.lanes[static_cast<size_t>(lane::fabric)];
    if (order.size() < 2) return false;
    const size_t i = below(order.size() - 1);
    std::swap(order[i], order[i + 1]);
    if (below(2) == 0) std::swap(p_.instructions[order[i]].sequence, p_.instructions[order[i + 1]].sequence);
    return true;
  }
  // Swaps two collectives as if the generator had written them in the other order on this rank: sequence numbers, lanes
  // and dependencies remain consistent with each other.
  bool exchange_collectives() {
    const auto& order = p_.lanes[static_cast<size_t>(lane::fabric)];
    if (order.size() < 2) return false;
    const size_t i = below(order.size() - 1);
    instruction &x = p_.instructions[order[i]], &y = p_.instructions[order[i + 1]];
    std::swap(x.kind, y.kind);
    std::swap(x.subject, y.subject);
    std::swap(x.piece, y.piece);
    std::swap(x.micro, y.micro);
    std::swap(x.use, y.use);
    std::swap(x.moved_bytes, y.moved_bytes);
    std::swap(x.guard, y.guard);
    std::swap(x.slots, y.slots);
    return true;
  }
  bool change_collective() {
    auto* x = any([](const instruction& i) { return i.lane == lane::fabric; });
    if (x == nullptr) return false;
    switch (below(3)) {
      case 0:
        x->moved_bytes += 64;
        break;
      case 1:
        x->use = x->use == use::forward ? use::backward : use::forward;
        break;
      default:
        ++x->sequence;
    }
    return true;
  }
  bool stand_twice_in_a_lane() {
    auto& order = any_lane();
    order.insert(order.begin() + static_cast<long>(below(order.size() + 1)), order[below(order.size())]);
    return true;
  }
  bool reorder_lane() {
    auto& order = any_lane();
    const size_t i = below(order.size()), k = below(order.size());
    if (i == k) return false;
    std::swap(order[i], order[k]);
    return true;
  }
  bool change_lane() {
    auto& order = any_lane();
    auto& other = any_lane();
    if (&order == &other) return false;
    other.push_back(order.back());
    order.pop_back();
    return true;
  }
  // Swaps two neighbouring computations consistently, as if the plan had been generated this way. Forwards and
  // backwards keep the order that their data dependencies require.
  bool compute_in_another_order() {
    auto& order = p_.lanes[static_cast<size_t>(lane::compute)];
    const auto computes = [&](uint32_t id) { return p_.instructions[id].kind != kind::release; };
    std::vector<size_t> places;
    for (size_t i = 1; i < order.size(); ++i)
      if (computes(order[i - 1]) && computes(order[i])) places.push_back(i);
    if (places.empty()) return false;
    const size_t i = places[below(places.size())];
    instruction &x = p_.instructions[order[i - 1]], &y = p_.instructions[order[i]];
    std::swap(x.kind, y.kind);
    std::swap(x.subject, y.subject);
    std::swap(x.segment, y.segment);
    std::swap(x.piece, y.piece);
    std::swap(x.micro, y.micro);
    std::swap(x.use, y.use);
    std::swap(x.slots, y.slots);
    return true;
  }
};

}  // namespace troupe::plan
