// Breaks valid plans of a pipeline: on one rank, or on several so that no rank disagrees with another. Changes that
// concern only one rank's plan are in saboteur.hpp.
#pragma once

#include "plan/kinds.hpp"
#include "plan/layout/communicators.hpp"
#include "plan/stages.hpp"
#include "tests/plan/plan_breaker.hpp"

namespace troupe::plan {

class pipeline_saboteur : public plan_breaker {
 public:
  pipeline_saboteur(plans& all, std::mt19937_64& random) : plan_breaker(all, random) {}

  /// Removes one end of a transfer, or both.
  bool drop_a_transfer() {
    const auto x = any_transfer();
    if (!x) return false;
    const auto other = partner(*x);
    remove(*x);
    if (below(2) == 0) remove(other);
    return true;
  }
  /// Swaps two receives of one communicator: their slots, their micro-batches on one rank or on both, or the slots of
  /// their readers.
  bool cross_two_receives() {
    const auto x = any([&](const instruction& i) { return i.kind == kind::receive; });
    if (!x) return false;
    const auto y = any_of(x->rank, [&](const instruction& i) {
      return i.kind == kind::receive && i.communicator == at(*x).communicator && i.id != x->id;
    });
    if (!y) return false;
    switch (below(4)) {
      case 0:
        std::swap(at(*x).slots.moved, at(*y).slots.moved);
        return true;
      case 1:
        std::swap(at(*x).micro, at(*y).micro);
        return true;
      case 2:
        std::swap(at(partner(*x)).micro, at(partner(*y)).micro);
        std::swap(at(*x).micro, at(*y).micro);
        return true;
      default:
        break;
    }
    const auto reader_of = [&](const place& r) {
      return any_of(r.rank, [&](const instruction& i) { return i.slots.arrived == at(r).slots.moved; });
    };
    std::swap(at(*reader_of(*x)).slots.arrived, at(*reader_of(*y)).slots.arrived);
    return true;
  }
  /// Moves a transfer to another communicator of its rank, together with its other end if that rank is a member.
  bool misdirect_a_transfer() {
    const auto x = any_transfer();
    if (!x) return false;
    const auto other = partner(*x);
    const auto& communicators = layout_of(all_).communicators;
    std::vector<uint32_t> open;
    for (uint32_t c = 0; c < communicators.size(); ++c)
      if (c != at(*x).communicator && std::ranges::binary_search(communicators[c].members, x->rank)) open.push_back(c);
    const uint32_t to = open[below(open.size())];
    move_to(*x, to);
    if (std::ranges::binary_search(communicators[to].members, other.rank)) move_to(other, to);
    return true;
  }
  /// Removes a reduction's dependencies on backwards, or swaps it with another bucket's reduction on all ranks of its
  /// stage.
  bool reduce_too_early() {
    const auto x = any([](const instruction& i) { return i.kind == kind::reduce; });
    if (!x) return false;
    if (below(2) == 0) return wait_for_none(*x, [](const instruction& i) { return i.lane == lane::compute; });
    const auto y = any_of(x->rank, [&](const instruction& i) {
      return i.kind == kind::reduce && i.subject != at(*x).subject && i.micro == at(*x).micro;
    });
    if (!y) return false;
    const uint32_t communicator = at(*x).communicator, first = at(*x).sequence, second = at(*y).sequence;
    for (const uint32_t r : layout_of(all_).communicators[communicator].members) {
      auto &a = at(found(r, communicator, first)), &b = at(found(r, communicator, second));
      std::swap(a.subject, b.subject);
      std::swap(a.slots.gradients, b.slots.gradients);
      std::swap(a.moved_bytes, b.moved_bytes);
      std::swap(a.slots.window, b.slots.window);
    }
    return true;
  }
  /// Swaps the micro-batches of two reductions of a bucket on all ranks of their stage.
  bool add_in_another_order() {
    const auto x = any([](const instruction& i) { return i.kind == kind::reduce; });
    if (!x) return false;
    const auto y = any_of(x->rank, [&](const instruction& i) {
      return i.kind == kind::reduce && i.subject == at(*x).subject && i.id != x->id;
    });
    if (!y) return false;
    const uint32_t communicator = at(*x).communicator, first = at(*x).sequence, second = at(*y).sequence;
    for (const uint32_t r : layout_of(all_).communicators[communicator].members) {
      auto &a = at(found(r, communicator, first)), &b = at(found(r, communicator, second));
      std::swap(a.micro, b.micro);
      std::swap(a.slots.gradients, b.slots.gradients);
    }
    return true;
  }
  /// Changes the layout's summation orders: swaps two micro-batches of a bucket, or removes all orders, which means
  /// that every bucket adds micro-batches in ascending order.
  bool say_another_order_of_sums() {
    job_layout& l = own_layout();
    const uint32_t micros = l.options.accumulation;
    if (l.buckets.empty() || micros < 2) return false;
    auto& orders = l.bucket_order;
    const bool in_order = orders.empty();
    if (!in_order && below(3) == 0) {
      orders.clear();
      return true;
    }
    orders.resize(l.buckets.size());
    for (auto& order : orders)
      for (uint32_t m = 0; in_order && m < micros; ++m) order.push_back(m);
    auto& order = orders[below(orders.size())];
    const size_t a = below(micros);
    std::swap(order[a], order[(a + 1 + below(micros - 1)) % micros]);
    return true;
  }
  /// Places the slots of two transfers in the same bytes.
  bool share_a_slot() {
    const auto x = any_transfer();
    if (!x) return false;
    auto& p = all_[x->rank];
    std::vector<uint32_t> others;
    for (uint32_t b = 0; b < p.buffers.size(); ++b)
      if (p.buffers[b].pool == pool::transfers && p.buffers[b].offset != p.buffers[at(*x).slots.moved].offset)
        others.push_back(b);
    if (others.empty()) return false;
    p.buffers[others[below(others.size())]].offset = p.buffers[at(*x).slots.moved].offset;
    excuse_ = [this, r = x->rank](const shared_plans& now) { return plan_changer(all_[r], random_).slots_hold(now); };
    return true;
  }
  /// Removes the ranks of one coordinate from the communicator of the vote (the all-gather of gradient square sums), or
  /// restricts it to the ranks of each stage.
  bool vote_without_an_axis() {
    job_layout& l = own_layout();
    const uint32_t world = world_communicator(l);
    auto& members = l.communicators[world].members;
    if (at_vote(0) == none) return false;
    if (below(2) == 0) {
      for (uint32_t r = 0; r < all_.size(); ++r)
        move_to({r, at_vote(r)}, data_communicator(l, l.options.mesh.pipeline_at(r), l.options.mesh.tensor_at(r)));
      return true;
    }
    const bool data = l.options.data() > 1 && below(2) == 0;
    const auto left_out = [&](uint32_t r) {
      return data ? l.options.mesh.data_at(r) > 0 : l.options.mesh.pipeline_at(r) > 0;
    };
    std::erase_if(members, left_out);
    for (uint32_t r = 0; r < all_.size(); ++r)
      if (left_out(r))
        move_to({r, at_vote(r)}, data_communicator(l, l.options.mesh.pipeline_at(r), l.options.mesh.tensor_at(r)));
    return true;
  }
  /// Swaps the numbers of two micro-batches: of one forward, of all instructions of a rank, or of all instructions of
  /// all ranks.
  bool swap_micro_batches() {
    const uint32_t micros = layout_of(all_).options.accumulation;
    if (micros < 2) return false;
    const auto a = static_cast<uint32_t>(below(micros)),
               b = static_cast<uint32_t>((a + 1 + below(micros - 1)) % micros);
    const auto swapped_name = [&](uint32_t m) { return m == a ? b : m == b ? a : m; };
    const auto way = below(3);
    if (way == 0) {
      const auto x = any([&](const instruction& i) { return i.kind == kind::forward && i.micro == a; });
      if (!x) return false;
      const auto y = any_of(x->rank, [&](const instruction& i) {
        return i.kind == kind::forward && i.micro == b && i.subject == at(*x).subject && i.segment == at(*x).segment;
      });
      std::swap(at(*x).micro, at(*y).micro);
      return true;
    }
    const size_t only = below(all_.size());
    for (size_t r = 0; r < all_.size(); ++r) {
      if (way == 1 && r != only) continue;
      for (auto& x : all_[r].instructions)
        if (x.lane != lane::fabric || is_transfer(x.kind)) x.micro = swapped_name(x.micro);
    }
    return true;
  }
  /// Changes the stage of a unit in the layout, removes a unit's computations on all ranks, or makes a rank compute a
  /// unit of another stage.
  bool compute_a_unit_twice_or_never() {
    job_layout& l = own_layout();
    const auto units = static_cast<uint32_t>(l.stage_of_unit.size());
    const auto u = static_cast<uint32_t>(below(units));
    switch (below(4)) {
      case 0:
        l.stage_of_unit[u] += l.stage_of_unit[u] + 1 < num_stages(l) ? 1 : UINT32_MAX;
        return true;
      case 1: {
        auto& first = l.options.pipeline.first_unit;
        first[1 + below(first.size() - 1)] += 1;
        return true;
      }
      case 2:
        for (auto& p : all_)
          while (const auto x = any_of(p.rank, [&](const instruction& i) { return computes(i) && i.subject == u; }))
            remove(*x);
        return true;
      default:
        break;
    }
    const auto x = any([&](const instruction& i) { return computes(i) && i.segment == 0; });
    if (!x || plan::computes(l, x->rank, u)) return false;
    at(*x).subject = u;
    return true;
  }
  /// Ends the lifetime of a slot received in forward before the backward that reads it; another slot may reuse its
  /// bytes.
  bool free_a_receive_too_early() {
    const auto x = any([&](const instruction& i) { return i.kind == kind::receive && i.use == use::forward; });
    if (!x) return false;
    auto& p = all_[x->rank];
    auto& slot = p.buffers[at(*x).slots.moved];
    const auto reader = any_of(x->rank, [&](const instruction& i) {
      return i.kind == kind::forward && i.slots.arrived == at(*x).slots.moved;
    });
    if (slot.last == reader->id) return false;
    slot.last = reader->id;
    for (auto& other : p.buffers)
      if (below(2) == 0 && other.pool == pool::transfers && other.first > slot.last) other.offset = slot.offset;
    return true;
  }
  /// Makes a computation or a transfer refer to another slot, or to no slot.
  bool name_another_slot() {
    const auto x = any([](const instruction& i) { return computes(i) || is_transfer(i.kind); });
    if (!x) return false;
    auto& i = at(*x);
    uint32_t& slot = is_transfer(i.kind) ? i.slots.moved : below(2) == 0 ? i.slots.arrived : i.slots.leaving;
    const uint32_t old = slot;
    slot = below(8) == 0 ? none : static_cast<uint32_t>(below(all_[x->rank].buffers.size()));
    return slot != old;
  }

 private:
  static bool computes(const instruction& i) { return i.lane == lane::compute && i.kind != kind::release; }
  std::optional<place> any_transfer() {
    return any([](const instruction& i) { return is_transfer(i.kind); });
  }
  /// Returns the matching send or receive of transfer `x` on the other rank.
  place partner(const place& x) {
    const auto& members = layout_of(all_).communicators[at(x).communicator].members;
    return found(members[members.front() == x.rank ? 1 : 0], at(x).communicator, at(x).sequence);
  }
  uint32_t at_vote(uint32_t rank) {
    const auto x = any_of(rank, [](const instruction& i) { return i.kind == kind::vote; });
    return x ? x->id : none;
  }
};

}  // namespace troupe::plan
