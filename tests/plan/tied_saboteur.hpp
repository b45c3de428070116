// Breaks the sums of tied gradients in valid plans: too early, twice or never, in an exchange between stages or in a
// sum within a rank, on one rank or on all ranks that take part.
#pragma once

#include "plan/layout/communicators.hpp"
#include "tests/plan/plan_breaker.hpp"

namespace troupe::plan {

class tied_saboteur : public plan_breaker {
 public:
  tied_saboteur(plans& all, std::mt19937_64& random) : plan_breaker(all, random) {}

  /// Removes an exchange's dependencies on the reductions of the gradients that it sends.
  bool exchange_early() {
    const auto x = any([](const instruction& i) { return i.kind == kind::tie; });
    return x && wait_for_none(*x, reduces);
  }
  bool exchange_twice() { return repeat(kind::tie); }
  bool exchange_never() { return leave_out(kind::tie); }

  /// Removes a sum's dependencies on reductions, or its dependencies on exchanges.
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

  /// Returns the instructions of all ranks with the kind and subject of `x`: one on each member of the exchange, or one
  /// on each rank that sums this tie itself.
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
