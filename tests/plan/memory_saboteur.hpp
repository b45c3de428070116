// Breaks the memory of a valid plan: buffers, slots, windows, extents of files.
#pragma once

#include "tests/plan/order_saboteur.hpp"

namespace troupe::plan {

/// Changes the memory of one rank's plan. Each change is at one random position, and returns false if the plan has no
/// position for it.
class memory_saboteur : public order_saboteur {
 public:
  using order_saboteur::order_saboteur;

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
    using s = operation_slots;
    std::vector<uint32_t*> named;
    for (auto& x : p_.instructions)
      for (const auto slot : {&s::parameters, &s::gradients, &s::matrices, &s::staging, &s::moved})
        if (x.slots.*slot != none) named.push_back(&(x.slots.*slot));
    if (named.empty()) return false;
    uint32_t& slot = *named[below(named.size())];
    const uint32_t old = slot;
    slot = below(4) == 0 ? none : static_cast<uint32_t>(below(p_.buffers.size()));
    return slot != old;
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
  bool forget_the_slot_of_a_weight_part() {
    auto* x = any([](const instruction& i) { return i.kind == kind::backward_weight && i.slots.arrived != none; });
    if (x == nullptr) return false;
    x->slots.arrived = none;
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
      return i.slots.window != none && (i.lane == lane::compute || i.what == swapped::activations);
    });
    if (x == nullptr) return false;
    const uint32_t old = x->slots.window;
    x->slots.window = below(4) == 0 ? none : static_cast<uint32_t>(below(p_.buffers.size()));
    return x->slots.window != old;
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
      return !i.after.empty() && (moves_activations(i) || (i.kind == kind::recompute && i.slots.window != none));
    });
    if (x == nullptr) return false;
    const auto at = x->after.begin() + static_cast<long>(below(x->after.size()));
    const uint32_t on = *at;
    x->after.erase(at);
    return excused_if_implied(x->id, on);
  }

 private:
  static bool moves_activations(const instruction& i) { return i.what == swapped::activations; }
};

}  // namespace troupe::plan
