// Breaks the exchanges between the ranks of a tensor or sequence group in valid plans: on one rank, on all ranks of a
// communicator, or on all ranks alike, so that no rank disagrees with another. Wrong values, which a plan does not
// contain, are tested by the mutants (tests/mutants).
#pragma once

#include "plan/group_exchange.hpp"
#include "plan/layout/communicators.hpp"
#include "tests/plan/plan_breaker.hpp"

namespace troupe::plan {

class exchange_saboteur : public plan_breaker {
 public:
  exchange_saboteur(plans& all, std::mt19937_64& random) : plan_breaker(all, random) {}

  bool drop() {
    const auto x = any(exchanges);
    if (!x) return false;
    return drop_all(some_of(*x));
  }
  /// Repeats an exchange at the end of its lane, or overwrites another micro-batch's exchange with it, so that the
  /// latter is missing.
  bool repeat() {
    const auto x = any(exchanges);
    if (!x) return false;
    const auto y = any_of(x->rank, [&](const instruction& i) {
      return exchanges(i) && i.id != x->id && i.subject == at(*x).subject && i.segment == at(*x).segment &&
             i.use == at(*x).use && i.repeats == at(*x).repeats && i.piece == at(*x).piece;
    });
    const bool instead = y && below(2) == 0;
    const uint32_t micro = instead ? at(*y).micro : 0;
    for (const auto& one : some_of(*x)) {
      if (!instead) {
        append_again(one);
        continue;
      }
      const instruction again = at(one);
      const auto other = any_of(one.rank, [&](const instruction& i) { return same_but_micro(i, again, micro); });
      static_cast<operation&>(at(*other)) = again;
    }
    return true;
  }
  bool leave_out_of_a_recompute() {
    const auto x = any([](const instruction& i) { return i.repeats == repetition::recompute; });
    return x && drop_all(some_of(*x));
  }
  /// Removes an exchange of a recomputed unit: one of its segments' exchanges in forward, or the exchange that delivers
  /// the gradient to its last segment.
  bool leave_out_around_a_recompute() {
    const auto x = any_around_a_recompute();
    return x && drop_all(some_of(*x));
  }
  /// Removes the dependency on an exchange of a recomputed unit, or makes the recompute read the exchanged slot as the
  /// unit's input.
  bool confuse_a_recompute() {
    const auto x = any_around_a_recompute();
    if (!x) return false;
    if (below(2) == 0) {
      const auto reader = any_of(x->rank, [&](const instruction& i) {
        return i.lane == lane::compute && i.slots.arrived == at(*x).slots.moved && way_of(i.use) == at(*x).use;
      });
      return reader && wait_for_none(*reader, [&](const instruction& i) { return i.id == x->id; });
    }
    const auto again = recompute_beside(x->rank, at(*x));
    return std::exchange(at(*again).slots.arrived, at(*x).slots.moved) != at(*x).slots.moved;
  }
  /// Moves an exchange to another communicator of its rank, or changes the members of its communicator in the layout.
  bool meet_another_group() {
    const auto x = any(exchanges);
    if (!x) return false;
    if (below(3) == 0) return change_members(at(*x).communicator);
    const auto& all = layout_of(all_).communicators;
    std::vector<uint32_t> open;
    for (uint32_t c = 0; c < all.size(); ++c)
      if (c != at(*x).communicator && std::ranges::binary_search(all[c].members, x->rank)) open.push_back(c);
    const uint32_t to = open[below(open.size())];
    for (const auto& one : some_of(*x))
      if (std::ranges::binary_search(all[to].members, one.rank)) move_to(one, to);
    return true;
  }
  bool swap_parts_of_a_sequence() {
    return swap_parts([this](const instruction& i) { return !of_tensor_group(i); });
  }
  bool swap_parts_of_a_tensor_group() {
    return swap_parts([this](const instruction& i) { return of_tensor_group(i); });
  }
  /// Removes a piece, but not the first, of a product that is exchanged in pieces: the piece's multiplication or its
  /// exchange.
  bool drop_a_piece() {
    const auto x = any([](const instruction& i) { return i.piece > 0; });
    return x && drop_all(some_of(*x));
  }
  /// Repeats a piece at the end of its lane, or overwrites the previous piece with it, so that the latter is missing.
  bool repeat_a_piece() {
    const auto x = any([](const instruction& i) { return i.piece > 0; });
    if (!x) return false;
    const bool instead = below(2) == 0 && at(*x).piece > 1;
    for (const auto& one : some_of(*x))
      if (instead)
        ++at(piece_before(one)).piece;
      else
        append_again(one);
    return true;
  }
  /// Swaps the rows of two neighbouring pieces: of the multiplications, of the exchanges or of both.
  bool swap_pieces() {
    const auto x = any([](const instruction& i) { return i.piece > 1; });
    if (!x) return false;
    const bool both = below(2) == 0;
    const uint32_t piece = at(*x).piece;
    for (const auto& one : some_of(*x)) {
      for (auto& i : all_[one.rank].instructions) {
        const instruction& as = at(one);
        const bool same = i.subject == as.subject && i.segment == as.segment && i.micro == as.micro &&
                          i.use == use::forward && i.repeats == repetition::none && (both || i.kind == as.kind);
        if (!same || i.id == one.id || (i.kind != kind::multiply && i.kind != kind::exchange)) continue;
        if (i.piece == piece || i.piece + 1 == piece) i.piece = 2 * piece - 1 - i.piece;
      }
      --at(one).piece;
    }
    return true;
  }
  /// Removes the dependency of one instruction on a piece: of the piece's exchange, of the next piece's exchange or,
  /// for the last piece, of the instruction that reads all rows.
  bool forget_a_piece() {
    const auto x = any([](const instruction& i) { return i.piece > 0; });
    if (!x) return false;
    const uint32_t slot = at(*x).kind == kind::exchange ? at(*x).slots.moved : at(*x).slots.leaving;
    const auto reader = any_of(x->rank, [&](const instruction& i) {
      const bool waits = std::ranges::find(i.after, x->id) != i.after.end();
      return waits && (i.kind == kind::exchange || i.slots.arrived == slot);
    });
    return reader && wait_for_none(*reader, [&](const instruction& i) { return i.id == x->id; });
  }
  /// Makes a multiplication write its rows into another slot, or read another input.
  bool misplace_a_piece() {
    const auto x = any([](const instruction& i) { return i.kind == kind::multiply; });
    if (!x) return false;
    const auto other = static_cast<uint32_t>(below(all_[x->rank].buffers.size()));
    uint32_t& slot = below(2) == 0 ? at(*x).slots.leaving : at(*x).slots.arrived;
    return std::exchange(slot, other) != other;
  }
  /// Breaks the gather of each row's loss terms over a vocabulary that is sharded across ranks: the exchange moves the
  /// bytes of one rank only, the slot has room for one rank only, or both.
  bool forget_the_place_in_the_vocabulary() {
    const job_layout& l = layout_of(all_);
    const auto x = any([&](const instruction& i) { return exchanges(i) && op_of(i) == core::exchange_op::gather; });
    if (!x) return false;
    const group_exchange what = exchange_of(l, at(*x).subject, at(*x).segment, at(*x).use);
    const auto which = below(3);
    for (const auto& one : some_of(*x)) {
      if (which != 0) at(one).moved_bytes = what.bytes;
      if (which != 1) all_[one.rank].buffers[at(one).slots.moved].bytes -= what.bytes * (what.ranks - 1);
    }
    return true;
  }
  /// Makes the ranks reduce, over the data axis only, gradients whose summands are spread over tensor ranks.
  bool reduce_over_data_alone() { return reduce_over_other_ranks(true); }
  /// Makes the ranks reduce, over the tensor axis as well, gradients that each tensor rank computes completely.
  bool reduce_over_tensor_too() { return reduce_over_other_ranks(false); }

 private:
  static bool exchanges(const instruction& i) { return i.kind == kind::exchange; }
  static bool same_but_micro(const instruction& a, const instruction& b, uint32_t micro) {
    return a.kind == b.kind && a.subject == b.subject && a.segment == b.segment && a.use == b.use &&
           a.repeats == b.repeats && a.piece == b.piece && a.micro == micro;
  }
  [[nodiscard]] bool of_tensor_group(const instruction& i) const {
    return exchange_of(layout_of(all_), i.subject, i.segment, i.use).is_of_tensor_group();
  }
  [[nodiscard]] core::exchange_op op_of(const instruction& i) const {
    return exchange_of(layout_of(all_), i.subject, i.segment, i.use).op;
  }
  /// Returns the recompute instruction of the unit whose segments need exchange `x` in forward, or whose backward waits
  /// for it.
  std::optional<place> recompute_beside(uint32_t rank, const instruction& x) {
    const uint32_t unit = x.use == use::forward ? x.subject : x.subject - 1;
    return any_of(rank, [&](const instruction& i) {
      return i.kind == kind::recompute && i.subject == unit && i.micro == x.micro;
    });
  }
  std::optional<place> any_around_a_recompute() {
    std::vector<place> all;
    for (const auto& p : all_)
      for (const auto& i : p.instructions)
        if (exchanges(i) && recompute_beside(p.rank, i)) all.push_back({p.rank, i.id});
    return all.empty() ? std::nullopt : std::optional(all[below(all.size())]);
  }
  place piece_before(const place& x) {
    const instruction one = at(x);
    return *any_of(x.rank, [&](const instruction& i) {
      return i.kind == one.kind && i.subject == one.subject && i.segment == one.segment && i.micro == one.micro &&
             i.use == one.use && i.repeats == repetition::none && i.piece + 1 == one.piece;
    });
  }
  [[nodiscard]] uint32_t tensor_at(const place& x) const { return layout_of(all_).options.mesh.tensor_at(x.rank); }

  /// Returns `x` alone, or the corresponding exchanges of all ranks of its communicator or of the whole job.
  std::vector<place> some_of(const place& x) {
    const instruction one = at(x);
    const auto how = below(3);
    if (how == 0) return {x};
    std::vector<place> out;
    for (const auto& p : all_)
      for (const auto& i : p.instructions)
        if (same_but_micro(i, one, one.micro) && (how == 2 || i.communicator == one.communicator))
          out.push_back({p.rank, i.id});
    return out;
  }
  bool drop_all(const std::vector<place>& all) {
    for (const auto& x : all) remove(x);
    return true;
  }
  /// Replaces the layout's model by a copy that only this layout uses, and returns the copy for changes.
  static core::model_table& own_table(job_layout& l) {
    const auto own = std::make_shared<core::model_table>(*l.table);
    l.table = own;
    return *own;
  }
  /// Removes a member of a communicator, or swaps it with a member of a similar one.
  bool change_members(uint32_t communicator) {
    job_layout& l = own_layout();
    auto& members = l.communicators[communicator].members;
    const uint32_t gone = members[below(members.size())];
    std::erase(members, gone);
    for (uint32_t c = 0; c < l.communicators.size() && below(2) == 0; ++c) {
      auto& others = l.communicators[c].members;
      if (c == communicator || alike(l, c) != alike(l, communicator)) continue;
      members.push_back(std::exchange(others[below(others.size())], gone));
      std::ranges::sort(others);
      std::ranges::sort(members);
      break;
    }
    return true;
  }
  /// Swaps two exchanges of a communicator, together with their slots, on one rank or on all members.
  bool trade_with_another(const place& x) {
    const auto y = any_of(x.rank, [&](const instruction& i) {
      return exchanges(i) && i.id != x.id && i.communicator == at(x).communicator;
    });
    if (!y) return false;
    const uint32_t communicator = at(x).communicator, first = at(x).sequence, second = at(*y).sequence;
    const bool everyone = below(2) == 0;
    for (const uint32_t r : layout_of(all_).communicators[communicator].members)
      if (everyone || r == x.rank)
        std::swap(static_cast<operation&>(at(found(r, communicator, first))),
                  static_cast<operation&>(at(found(r, communicator, second))));
    return true;
  }
  /// Replaces an exchange by the one of the opposite direction, swaps it with another exchange, reorders two ranks, or
  /// changes the exchange operation in the model.
  bool swap_parts(auto wanted) {
    const auto x = any([&](const instruction& i) { return exchanges(i) && wanted(i); });
    if (!x) return false;
    switch (below(4)) {
      case 0:
        for (const auto& one : some_of(*x)) at(one).use = at(one).use == use::forward ? use::backward : use::forward;
        return true;
      case 1:
        return trade_with_another(*x);
      case 2: {
        auto& members = own_layout().communicators[at(*x).communicator].members;
        const size_t k = below(members.size() - 1);
        std::swap(members[k], members[k + 1]);
        return true;
      }
      default:
        break;
    }
    core::segment_info& s = own_table(own_layout()).units[at(*x).subject].segments[at(*x).segment];
    core::segment_exchange& what = at(*x).use == use::forward ? s.output : s.input_gradient;
    // Returns true for operations that assemble the parts of all ranks, whichever parts they are.
    const auto parts = [](core::exchange_op op) {
      return op == core::exchange_op::gather || op == core::exchange_op::collect;
    };
    const core::exchange_op old = what.op;
    what.op = static_cast<core::exchange_op>((static_cast<uint32_t>(old) + 1 + below(5)) % 6);
    return !parts(old) || !parts(what.op);
  }
  /// Makes the ranks reduce a bucket for which `over_tensor` is `was` over the wrong axes: in one reduction alone, or
  /// in the layout and all plans, and then randomly in the model too.
  bool reduce_over_other_ranks(bool was) {
    if (layout_of(all_).options.mesh.tensor_ranks() == 1) return false;
    const auto x = any([&](const instruction& i) {
      return i.kind == kind::reduce && layout_of(all_).buckets[i.subject].over_tensor == was;
    });
    if (!x) return false;
    const uint32_t bucket = at(*x).subject;
    if (below(4) == 0) {  // changes one reduction, of one rank or of several ranks
      parameter_set other = layout_of(all_).buckets[bucket];
      other.over_tensor = !was;
      for (const auto& one : some_of(*x)) move_to(one, reduce_communicator(layout_of(all_), other, tensor_at(one)));
      return true;
    }
    job_layout& l = own_layout();
    l.buckets[bucket].over_tensor = !was;
    if (const auto how = below(3); how > 0) {
      core::model_table& table = own_table(l);
      for (const auto& q : l.buckets[bucket].parameters)
        table.parameters[q.parameter].share = !was       ? core::tensor_share::summed
                                              : how == 1 ? core::tensor_share::alike
                                                         : core::tensor_share::cut;
    }
    for (auto& p : all_)
      for (const auto& i : p.instructions)
        if (i.kind == kind::reduce && i.subject == bucket)
          move_to({p.rank, i.id}, reduce_communicator(l, l.buckets[bucket], l.options.mesh.tensor_at(p.rank)));
    return true;
  }
};

}  // namespace troupe::plan
