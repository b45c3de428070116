#include "plan/passes/pass.hpp"

#include <algorithm>

namespace troupe::plan {
namespace {

/// `x` has to wait for `y`.
bool behind(const pass& x, const pass& y) {
  const facts taken_away = all_facts.without(x.promise.keeps | x.promise.provides);
  return x.promise.needs.overlaps(y.promise.provides) || taken_away.overlaps(y.promise.needs);
}

core::result<void> all_provided(std::span<const pass> passes) {
  facts provided = written_facts;
  for (const pass& x : passes) provided = provided | x.promise.provides;
  for (const pass& x : passes)
    for (uint32_t k = 0; k < num_facts; ++k)
      if (const auto f = static_cast<fact>(k); x.promise.needs.without(provided).overlaps({f}))
        return core::fail(core::error_kind::bug, std::string("pass ").append(x.name).append(" needs that ") +
                                                     std::string(name_of(f)) + ", which no pass provides");
  return {};
}

}  // namespace

std::string_view name_of(fact x) {
  switch (x) {
    case fact::written_plainly:
      return "every use has its own gather and release";
    case fact::updates_follow_vote:
      return "updates follow the vote";
    case fact::gathers_placed:
      return "gathers are placed";
    case fact::updates_placed:
      return "updates are placed";
    case fact::gradients_placed:
      return "reduced gradients are placed";
  }
  return "?";
}

core::result<pass_order> in_order(std::span<const pass> passes) {
  if (auto ok = all_provided(passes); !ok) return core::fail(ok.error());
  pass_order out, waiting;
  for (const pass& x : passes) waiting.push_back(&x);
  while (!waiting.empty()) {
    const auto ready = std::ranges::find_if(waiting, [&](const pass* x) {
      return std::ranges::none_of(waiting, [&](const pass* y) { return y != x && behind(*x, *y); });
    });
    if (ready == waiting.end()) {
      std::string names;
      for (const pass* x : waiting) names.append(names.empty() ? "" : ", ").append(x->name);
      return core::fail(core::error_kind::bug, "passes wait for each other: " + names);
    }
    out.push_back(*ready);
    waiting.erase(ready);
  }
  return out;
}

std::vector<account> run_passes(draft& d, const rank_plan& p, const pass_order& passes) {
  std::vector<account> out;
  out.reserve(passes.size() + 1);
  for (const pass* x : passes) {
    d.take_changes();
    std::string why = x->run(d, p);
    out.push_back({x->name, d.take_changes(), std::move(why)});
  }
  return out;
}

}  // namespace troupe::plan
