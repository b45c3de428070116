// Breaks the sums of tied gradients in valid plans: too early, twice or never, of an exchange between stages or of a
// slice's own sum, on one rank or on all that meet.
#pragma once

#include "plan/layout/communicators.hpp"
#include "tests/plan/plan_breaker.hpp"

namespace troupe::plan {

class tied_saboteur : public plan_breaker {
 public:
  tied_saboteur(plans& all, std::mt19937_64& random) : plan_breaker(all, random) {}

  /// An exchange waits for none of the reductions of what it gives.
  bool exchange_early() {
    const auto x = any([](const instruction& i) { return i.kind == kind::tie; });
    return x && wait_for_none(*x, reduces);
  }
  bool exchange_twice() { return repeat(kind::tie); }
  bool exchange_never() { return leave_out(kind::tie); }

  /// A sum waits for no reduction, or for no exchange.
  bool add_early() {
    const auto x = any([](const instruction& i) { return i.kind == kind::tied_sum; });
    if (!x) return false;
    const bool waits = std::ranges::any_of(
        at(*x).after, [&](uint32_t on) { return all_[x->rank].instructions[on].kind == kind::tie; });
    if (waits && below(2) == 0) return wait_for_none(*x, [](const instruction& i) { return i.kind == kind::tie; });
    return wait_for_none(*x, reduces);
  }
  bool add_twice() { return repeat(kind::tied_sum); }
  bool add_never() { return leave_out(kind::tied_sum); }

 private:
  static bool reduces(const instruction& i) { return i.kind == kind::reduce; }

  /// All places of what `x` is: on all ranks that meet there, or, of a slice's own sum, on all that add this tie.
  std::vector<place> everywhere(const place& x) {
    const instruction one = at(x);
    std::vector<place> out;
    for (const auto& p : all_)
      for (const auto& i : p.instructions)
        if (i.kind == one.kind && i.subject == one.subject) out.push_back({p.rank, i.id});
    return out;
  }
  bool repeat(kind k) {
    const auto x = any([k](const instruction& i) { return i.kind == k; });
    if (!x) return false;
    for (const auto& one : below(2) == 0 ? std::vector{*x} : everywhere(*x)) append_again(one);
    return true;
  }
  bool leave_out(kind k) {
    const auto x = any([k](const instruction& i) { return i.kind == k; });
    if (!x) return false;
    for (const auto& one : below(2) == 0 ? std::vector{*x} : everywhere(*x)) remove(one);
    return true;
  }
};

}  // namespace troupe::plan
