#include "apps/simulate/simulated_spans.hpp"

namespace troupe::apps {

std::vector<std::vector<telemetry::rank_spans>> spans_by_step(const simulated_outcome& s) {
  const sim::history& h = s.run.log();
  std::vector<std::vector<telemetry::rank_spans>> out;
  std::vector<size_t> place(h.ranks, 0);  // [rank]: its place among those that act
  for (uint32_t r = 0, acting = 0; r < h.ranks; ++r)
    if (h.actor_of(r) == r) place[r] = acting++;
  for (const auto& step : h.steps) {
    auto& ranks = out.emplace_back();
    const auto& plans = s.plans[static_cast<size_t>(step.which)];
    for (uint32_t number = 0; number < plans.size(); ++number) {
      if (h.actor_of(number) != number) continue;
      const auto& p = plans[number];
      auto& r = ranks.emplace_back();
      r.plan = p;
      r.spans.assign(p->instructions.size(), telemetry::interval{telemetry::not_run_ns, telemetry::not_run_ns});
      r.told_others.assign(p->instructions.size(), false);
    }
  }
  for (const sim::span& x : h.spans)
    out[x.step - 1][place[x.rank]].spans[x.id] = {
        x.start_ns, x.end_ns == sim::history::never ? h.steps[x.step - 1].ended_ns : x.end_ns};
  return out;
}

}  // namespace troupe::apps
