// Breaks valid plans at one random place, and knows some changes to be harmless.
#pragma once

#include <algorithm>
#include <array>
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

/// Decides, from the final plans, whether a change is harmless.
using excuse = std::function<bool(const shared_plans&)>;

/// Changes one random place of one rank's plan. Each change returns false if there is no such place.
class saboteur {
 public:
  saboteur(rank_plan& p, std::mt19937_64 random) : random_(random), p_(p) {}

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
    excuses_.push_back([](const shared_plans& now) {  // ranks that wait for each other may wait in a circle now
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
  bool drop_a_weight_part() { return drop(kind::weigh); }
  bool repeat_a_weight_part() {
    auto* x = any([](const instruction& i) { return i.kind == kind::weigh; });
    if (x == nullptr) return false;
    auto* y = any([x](const instruction& i) {
      return i.kind == kind::weigh && i.subject == x->subject && i.segment == x->segment && i.micro != x->micro;
    });
    if (y == nullptr) return false;
    y->micro = x->micro;
    return true;
  }
  // As if the writer had taken the one for the other.
  bool weigh_before_the_input_part() {
    auto* x = any([](const instruction& i) { return i.kind == kind::weigh; });
    if (x == nullptr) return false;
    auto* input = any([x](const instruction& i) {
      return i.kind == kind::backward && i.subject == x->subject && i.segment == x->segment && i.micro == x->micro;
    });
    std::swap(static_cast<operation&>(*x), static_cast<operation&>(*input));
    return true;
  }
  bool reduce_before_a_weight_part() {
    const auto waits_for = [this](uint32_t on) { return p_.instructions[on].kind == kind::weigh; };
    auto* x =
        any([&](const instruction& i) { return i.kind == kind::reduce && std::ranges::any_of(i.after, waits_for); });
    if (x == nullptr) return false;
    // All that wait for the same part: a reduction also starts behind the one before it.
    const uint32_t part = *std::ranges::find_if(x->after, waits_for);
    for (auto& i : p_.instructions)
      if (i.kind == kind::reduce) std::erase(i.after, part);
    return true;
  }
  bool forget_the_slot_of_a_weight_part() {
    auto* x = any([](const instruction& i) { return i.kind == kind::weigh && i.input != none; });
    if (x == nullptr) return false;
    x->input = none;
    return true;
  }
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
  bool swap_collectives() {
    auto& order = p_.lanes[static_cast<size_t>(lane::fabric)];
    if (order.size() < 2) return false;
    const size_t i = below(order.size() - 1);
    std::swap(order[i], order[i + 1]);
    if (below(2) == 0) std::swap(p_.instructions[order[i]].sequence, p_.instructions[order[i + 1]].sequence);
    return true;
  }
  // As if this rank's generator had written them in the other order: numbers, lanes and waits all fit.
  bool exchange_collectives() {
    const auto& order = p_.lanes[static_cast<size_t>(lane::fabric)];
    if (order.size() < 2) return false;
    const size_t i = below(order.size() - 1);
    instruction &x = p_.instructions[order[i]], &y = p_.instructions[order[i + 1]];
    std::swap(x.kind, y.kind);
    std::swap(x.subject, y.subject);
    std::swap(x.micro, y.micro);
    std::swap(x.use, y.use);
    std::swap(x.bytes, y.bytes);
    std::swap(x.guard, y.guard);
    std::swap(x.buffer, y.buffer);
    return true;
  }
  bool change_collective() {
    auto* x = any([](const instruction& i) { return i.lane == lane::fabric; });
    if (x == nullptr) return false;
    switch (below(3)) {
      case 0:
        x->bytes += 64;
        break;
      case 1:
        x->use = x->use == use::forward ? use::backward : use::forward;
        break;
      default:
        ++x->sequence;
    }
    return true;
  }
  bool shift_buffer() {
    if (p_.buffers.empty()) return false;
    const auto b = static_cast<uint32_t>(below(p_.buffers.size()));
    const uint64_t pool = p_.pool_bytes[static_cast<size_t>(p_.buffers[b].pool)];
    const uint64_t grain = below(8) == 0 ? 1 : arena::alignment;
    const uint64_t to = below(pool / grain) * grain;
    if (to == p_.buffers[b].offset) return false;
    p_.buffers[b].offset = to;
    excuses_.push_back([this](const shared_plans& now) { return slots_hold(now); });
    return true;
  }
  bool shorten_life() {
    if (p_.buffers.empty()) return false;
    auto& b = p_.buffers[below(p_.buffers.size())];
    if (b.first == b.last) return false;
    if (below(2) == 0)
      b.last = b.first;
    else
      b.first = b.last;
    return true;
  }
  bool change_buffer() {
    auto* x = any([](const instruction& i) { return i.buffer != none; });
    if (x == nullptr) return false;
    const uint32_t old = x->buffer;
    x->buffer = below(4) == 0 ? none : static_cast<uint32_t>(below(p_.buffers.size()));
    return x->buffer != old;
  }
  bool change_what_a_buffer_is() {
    if (p_.buffers.empty()) return false;
    auto& b = p_.buffers[below(p_.buffers.size())];
    switch (below(3)) {
      case 0:
        b.bytes += arena::alignment;
        break;
      case 1:
        ++b.subject;
        break;
      default:
        b.pool = static_cast<pool>((static_cast<size_t>(b.pool) + 1 + below(num_pools - 1)) % num_pools);
    }
    return true;
  }
  bool add_a_buffer_for_nobody() {
    if (p_.buffers.empty()) return false;
    p_.buffers.push_back(p_.buffers[below(p_.buffers.size())]);
    return true;
  }
  bool change_where_a_bucket_lies() {
    if (p_.bucket_buffer.empty()) return false;
    auto& b = p_.bucket_buffer[below(p_.bucket_buffer.size())];
    const uint32_t old = std::exchange(b, static_cast<uint32_t>(below(p_.buffers.size() + 1)));
    return b != old;
  }
  // The micro-batch of a vote, of later instructions, of a gather or of a release is only a name.
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
  bool change_set() {
    std::vector<parameter_set*> sets;
    job_layout& l = layout();
    for (auto* kind : {&l.gather_sets, &l.buckets, &l.matrix_sets, &l.publish_sets})
      for (auto& s : *kind)
        if (!s.parameters.empty()) sets.push_back(&s);
    parameter_set& s = *sets[below(sets.size())];
    placement& x = s.parameters[below(s.parameters.size())];
    switch (below(3)) {
      case 0:
        x.parameter = static_cast<uint32_t>((x.parameter + 1) % p_.table().parameters.size());
        break;
      case 1:
        x.offset += 32;
        break;
      default:
        s.parameters.pop_back();
    }
    return p_.table().parameters.size() > 1;
  }
  bool change_layout() {
    const size_t q = below(p_.table().parameters.size());
    job_layout& l = layout();
    switch (below(7)) {
      case 0:
        l.full_offset[q] += 16;
        break;
      case 1:
        return std::exchange(l.full_offset[q], l.full_offset[(q + 1) % l.full_offset.size()]) != l.full_offset[q];
      case 2:
        l.full_elements[0] -= 32;
        break;
      case 3:
        if (l.slice_of(static_cast<uint32_t>(q), p_.rank).count == 0) return false;
        p_.offsets.shard[q] += below(2) == 0 ? 16 : 1'000'000'000;
        break;
      case 4:
        l.block_offset[q] += 1;
        break;
      case 5:
        l.gather_sets[below(l.gather_sets.size())].numel += 1;
        break;
      default:
        if (p_.sub_groups.empty()) return false;
        p_.sub_groups[below(p_.sub_groups.size())].elements += 1;
    }
    return true;
  }
  bool change_piece() {
    if (p_.sub_groups.empty()) return false;
    auto& g = p_.sub_groups[below(p_.sub_groups.size())];
    if (g.pieces.empty()) return false;
    auto& x = g.pieces[below(g.pieces.size())];
    switch (below(4)) {
      case 0:
        x.parameter = static_cast<uint32_t>((x.parameter + 1) % p_.table().parameters.size());
        break;
      case 1:
        x.range.count -= 1;
        break;
      case 2:
        x.state_offset += 32;
        break;
      default:
        x.range.first += 1;
    }
    return p_.table().parameters.size() > 1;
  }
  bool drop_piece() {
    if (p_.sub_groups.empty()) return false;
    auto& g = p_.sub_groups[below(p_.sub_groups.size())];
    if (g.pieces.empty()) return false;
    g.elements -= g.pieces.back().range.count;
    g.pieces.pop_back();
    return true;
  }
  bool change_states() {
    if (p_.sub_groups.empty()) return false;
    const auto q = static_cast<uint32_t>(below(p_.table().parameters.size()));
    switch (below(4)) {
      case 0:
        if (p_.own_states(q).count == 0) return false;
        p_.offsets.state[q] += below(2) == 0 ? 16 : 1'000'000'000;
        break;
      case 1:
        p_.offsets.state_elements /= 2;
        return p_.offsets.state_elements > 0;
      case 2: {
        uint32_t& owner = layout().matrix_owner[q];
        owner = owner == none ? 0 : p_.options().shards();
        break;
      }
      default: {
        auto& g = p_.sub_groups[below(p_.sub_groups.size())];
        g.need = g.need == update_need::elements ? update_need::parameter_norms : update_need::elements;
      }
    }
    return true;
  }
  bool change_moments() {
    const size_t q = below(p_.table().parameters.size()), k = below(max_moments);
    const auto id = static_cast<uint32_t>(q);
    if (k >= p_.options().update_of(id).moments || p_.own_states(id).count == 0) return false;
    p_.moment_offset[k][q] += below(2) == 0 ? 16 : 1'000'000'000;
    return true;
  }
  // As for another number of ranks, or for a parameter of another size.
  bool cut_elsewhere() {
    core::model_table other = p_.table();
    const bool grows = below(2) == 0;
    const auto q = static_cast<uint32_t>(below(other.parameters.size()));
    if (p_.layout->is_copy(q)) return false;  // cut as its original is
    if (grows) other.parameters[q].shape.push_back(2);
    layout().partition = make_partition(other, p_.options().shards() + (grows ? 0 : 1), p_.options().uneven);
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
  // Consistently, as if the plan had been written this way. Forwards and backwards follow their data.
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
    std::swap(x.micro, y.micro);
    std::swap(x.use, y.use);
    std::swap(x.buffer, y.buffer);
    return true;
  }
  bool change_guard() {
    auto& x = p_.instructions[below(p_.instructions.size())];
    x.guard = x.guard == guard::always ? guard::not_skipped : guard::always;
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
  bool change_what_is_saved() {
    if (p_.snapshots.empty()) return false;
    auto& block = p_.snapshots[below(p_.snapshots.size())];
    const size_t at = below(block.pieces.size());
    auto& piece = block.pieces[at];
    switch (below(7)) {
      case 0:
        piece.range.count -= 1;
        break;
      case 1:
        piece.range.first += 1;
        break;
      case 2:
        piece.part += 1;
        break;
      case 3:
        piece.offset += 4096;
        break;
      case 4:
        block.pieces.erase(block.pieces.begin() + static_cast<long>(at));
        break;
      case 5:
        block.frozen = !block.frozen;
        break;
      default:
        block.file_offset += 4096;
    }
    return true;
  }
  bool drop_an_activation_swap() {
    auto* x = any(moves_activations);
    if (x == nullptr) return false;
    remove(x->id);
    return true;
  }
  bool change_a_window_of_activations() {
    auto* x = any([](const instruction& i) {
      return i.staged != none && (i.lane == lane::compute || i.what == swapped::activations);
    });
    if (x == nullptr) return false;
    const uint32_t old = x->staged;
    x->staged = below(4) == 0 ? none : static_cast<uint32_t>(below(p_.buffers.size()));
    return x->staged != old;
  }
  bool move_an_extent_of_activations() {
    std::vector<uint32_t> stored;
    for (uint32_t u = 0; u < p_.activation_extents.size(); ++u)
      if (p_.activation_extents[u].bytes > 0) stored.push_back(u);
    if (stored.empty()) return false;
    auto& x = p_.activation_extents[stored[below(stored.size())]];
    switch (below(3)) {
      case 0:
        x.offset += swap_page_bytes;
        break;
      case 1:
        x.bytes += swap_page_bytes;
        break;
      default:
        p_.swap_file_bytes -= swap_page_bytes;
    }
    return true;
  }
  bool drop_dependency_of_activations() {
    auto* x = any([this](const instruction& i) {
      return !i.after.empty() && (moves_activations(i) || (i.kind == kind::recompute && i.staged != none));
    });
    if (x == nullptr) return false;
    const auto at = x->after.begin() + static_cast<long>(below(x->after.size()));
    const uint32_t on = *at;
    x->after.erase(at);
    return excused_if_implied(x->id, on);
  }
  bool change_an_undo_copy() {
    std::vector<uint32_t> ahead;
    for (uint32_t g = 0; g < p_.sub_groups.size(); ++g)
      if (p_.speculates(g)) ahead.push_back(g);
    if (ahead.empty()) return false;
    auto& offset = p_.undo_offset[ahead[below(ahead.size())]];
    switch (below(3)) {
      case 0:
        offset += 64;
        break;
      case 1:
        offset = no_undo;
        break;
      default:
        p_.undo_bytes += 64;
    }
    return true;
  }
  bool drop_an_undo() { return drop(kind::undo); }
  bool drop_a_redo() { return drop(kind::redo); }
  // As if the writer had taken the one for the other.
  bool redo_before_undo() {
    auto* x = any([](const instruction& i) { return i.kind == kind::redo; });
    if (x == nullptr) return false;
    auto* y = any([x](const instruction& i) { return i.kind == kind::undo && i.subject == x->subject; });
    std::swap(static_cast<operation&>(*x), static_cast<operation&>(*y));
    return true;
  }
  // Which of the two an update is decides about the factor of its gradients.
  bool take_the_factor_of_another_branch() {
    auto* x = any([this](const instruction& i) {
      return i.kind == kind::redo || (i.kind == kind::update && p_.speculates(i.subject));
    });
    if (x == nullptr) return false;
    x->kind = x->kind == kind::redo ? kind::update : kind::redo;
    return true;
  }
  bool act_in_other_branches() {
    auto* x = any([](const instruction& i) { return i.guard != guard::always; });
    if (x == nullptr) return false;
    const auto next = (static_cast<uint32_t>(x->guard) + below(3)) % 4;  // any but its own, and not always
    x->guard = static_cast<guard>(next + 1);
    return true;
  }
  bool change_size() {
    switch (below(4)) {
      case 0:
        p_.pool_bytes[below(num_pools)] += 64;
        break;
      case 1:
        p_.memory.gathered += 64;
        break;
      case 2:
        layout().num_blocks += 1;
        break;
      default:
        if (!p_.layout->gathers()) return false;
        p_.peak_live_elements += 1;
    }
    return true;
  }

  /// Instructions that waited for it wait for its own dependencies; everything else is renumbered.
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
  /// `id` still starts after `on` has ended, and in every branch: every dependency of a plan is there for a reason.
  [[nodiscard]] bool implied(const shared_plans& now, uint32_t id, uint32_t on) const {
    for (const uint32_t waits : p_.instructions[id].after)
      if (p_.instructions[id].guard == guard::always && p_.instructions[waits].guard != guard::always) return false;
    for (const branch taken : {branch::not_skipped, branch::clipped, branch::skipped}) {
      const bool idle = p_.instructions[on].kind == kind::redo && !runs(p_.instructions[on], taken);
      if (runs(p_.instructions[id], taken) && !idle && !order_oracle(now, taken).before(p_.rank, on, p_.rank, id))
        return false;
    }
    return true;
  }
  /// For bytes that two buffers share: all uses of the earlier one are over before the other begins. Uses lie within a
  /// life, as was proved for the unchanged plan.
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

  /// True if the change is known to be harmless.
  [[nodiscard]] bool excused(const shared_plans& now) const {
    return !excuses_.empty() && std::all_of(excuses_.begin(), excuses_.end(), [&](const auto& e) { return e(now); });
  }

 private:
  static bool moves_activations(const instruction& i) { return i.what == swapped::activations; }
  // A copy of the shared layout for this rank's plan alone.
  job_layout& layout() {
    if (layout_ == nullptr) p_.layout = layout_ = std::make_shared<job_layout>(*p_.layout);
    return *layout_;
  }
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }
  template <class F>
  instruction* any(F wanted) {
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
  // Harmless if it is implied.
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
