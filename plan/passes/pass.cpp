#include "plan/passes/pass.hpp"

#include <exception>

#include "core/pass_order.hpp"

namespace troupe::plan {
namespace {

/// True if pass `x` must run after pass `y`.
bool behind(const pass& x, const pass& y) {
  const facts taken_away = all_facts.without(x.promise.keeps | x.promise.provides);
  return x.promise.needs.overlaps(y.promise.provides) || taken_away.overlaps(y.promise.needs);
}

core::result<void> all_provided(const pass_order& passes) {
  facts provided = written_facts;
  for (const pass* x : passes) provided = provided | x->promise.provides;
  for (const pass* x : passes)
    for (uint32_t k = 0; k < num_facts; ++k)
      if (const auto f = static_cast<fact>(k); x->promise.needs.without(provided).overlaps({f}))
        return core::fail(core::error_kind::bad_input,
                          "pass " + x->name + " needs that " + std::string(name_of(f)) + ", which no pass provides");
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

core::result<pass_order> in_order(const pass_order& passes) {
  TROUPE_TRY(core::go_together(passes));
  TROUPE_TRY(all_provided(passes));
  return core::one_behind_another(passes, behind);
}

pass_order passes_of(const plan_options& options) {
  pass_order out;
  for (const pass& x : all_passes()) out.push_back(&x);
  for (const auto& x : options.passes) out.push_back(x.get());
  return out;
}

core::result<std::vector<account>> run_passes(draft& d, const rank_plan& p, const pass_order& passes) {
  std::vector<account> out;
  out.reserve(passes.size() + 1);
  for (const pass* x : passes) {
    d.take_changes();
    d.allow_looks((uint64_t{d.handles()} + 1) * pass_looks_max);
    try {
      std::string why = x->run(d, p);
      out.push_back({x->name, d.take_changes(), std::move(why)});
    } catch (const std::exception& e) {
      return core::fail(core::error_kind::bad_input, "pass " + x->name + ": " + e.what());
    }
  }
  return out;
}

}  // namespace troupe::plan
