// Breaks the compression of weights in valid plans: the compressed copies that units multiply with, and the value
// ranges that tensor ranks exchange.
#pragma once

#include "tests/plan/plan_breaker.hpp"

namespace troupe::plan {

class compression_saboteur : public plan_breaker {
 public:
  compression_saboteur(plans& all, std::mt19937_64& random) : plan_breaker(all, random) {}

  bool drop_a_copy() { return drop(kind::compress); }
  bool drop_a_survey() { return drop(kind::survey); }
  bool drop_an_agreement() { return drop(kind::agree); }
  bool multiply_with_a_copy_of_another_use() {
    const auto x = any([](const instruction& i) { return i.slots.compressed != none && i.kind != kind::compress; });
    if (!x) return false;
    const auto y = any_of(x->rank, [&](const instruction& i) {
      return i.kind == kind::compress && i.slots.compressed != at(*x).slots.compressed;
    });
    if (!y) return false;
    at(*x).slots.compressed = at(*y).slots.compressed;
    return true;
  }
  bool multiply_without_a_copy() {
    const auto x = any([](const instruction& i) { return i.slots.compressed != none && i.kind != kind::compress; });
    if (!x) return false;
    at(*x).slots.compressed = none;
    return true;
  }
  bool compress_another_unit() { return change_the_unit(kind::compress); }
  bool survey_another_unit() { return change_the_unit(kind::survey); }
  bool agree_on_another_unit() { return change_the_unit(kind::agree); }
  /// Ends the lifetime of a compressed copy's slot at the instruction that writes it, although later instructions
  /// multiply with the copy.
  bool reuse_a_copy_too_early() {
    const auto x = any([](const instruction& i) { return i.kind == kind::compress; });
    if (!x) return false;
    buffer& b = all_[x->rank].buffers[at(*x).slots.compressed];
    if (b.last == x->id) return false;
    b.last = x->id;
    return true;
  }
  bool compress_before_the_ranges_are_agreed() {
    const auto x = any([](const instruction& i) { return i.kind == kind::agree; });
    if (!x) return false;
    for (const auto& i : all_[x->rank].instructions)  // later compressions of the lane run after the first one
      if (i.kind == kind::compress && i.slots.arrived == at(*x).slots.moved)
        return wait_for_none({x->rank, i.id}, [](const instruction& on) { return on.kind == kind::agree; });
    return false;
  }
  bool agree_before_the_survey() {
    const auto x = any([](const instruction& i) { return i.kind == kind::agree; });
    return x && wait_for_none(*x, [](const instruction& i) { return i.kind == kind::survey; });
  }
  bool compress_with_other_ranges() {
    const auto x = any([](const instruction& i) { return i.kind == kind::compress && i.slots.arrived != none; });
    if (!x) return false;
    const auto y = any_of(
        x->rank, [&](const instruction& i) { return i.kind == kind::agree && i.slots.moved != at(*x).slots.arrived; });
    at(*x).slots.arrived = y && below(2) == 0 ? at(*y).slots.moved : none;
    return true;
  }
  bool tell_again_before_the_ranges_are_agreed() {
    const auto x = any([](const instruction& i) { return i.kind == kind::survey && i.slots.arrived != none; });
    return x && wait_for_none(*x, [](const instruction& on) { return on.kind == kind::agree; });
  }
  bool tell_again_without_the_ranges() {
    const auto x = any([](const instruction& i) { return i.kind == kind::survey && i.slots.arrived != none; });
    if (!x) return false;
    at(*x).slots.arrived = none;
    return true;
  }
  bool take_a_smaller_slot() {
    const auto x = any([](const instruction& i) { return i.kind == kind::compress || i.kind == kind::survey; });
    if (!x) return false;
    const uint32_t slot = at(*x).kind == kind::compress ? at(*x).slots.compressed : at(*x).slots.leaving;
    all_[x->rank].buffers[slot].bytes -= 8;
    return true;
  }

 private:
  bool drop(kind k) {
    const auto x = any([k](const instruction& i) { return i.kind == k; });
    if (!x) return false;
    remove(*x);
    return true;
  }
  bool change_the_unit(kind k) {
    const auto x = any([k](const instruction& i) { return i.kind == k; });
    if (!x) return false;
    const auto y = any_of(x->rank, [&](const instruction& i) { return i.kind == k && i.subject != at(*x).subject; });
    if (!y) return false;
    at(*x).subject = at(*y).subject;
    return true;
  }
};

}  // namespace troupe::plan
