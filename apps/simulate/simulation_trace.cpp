#include <fmt/format.h>

#include <vector>

#include "apps/simulate/simulation_text.hpp"
#include "core/text.hpp"
#include "telemetry/figures/trace.hpp"
#include "telemetry/spans.hpp"

namespace troupe::apps {
namespace {

/// Returns the times of all ranks that act in each step of the run, by rank. An instruction that had not ended when its
/// step failed ends with the step.
std::vector<std::vector<telemetry::rank_spans>> spans_by_step(const simulated_outcome& s, const sim::history& h) {
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

}  // namespace

std::string simulation_as_trace(const simulation& s) {
  const auto& shown = s.faulty ? *s.faulty : s.healthy;
  const auto& h = shown.run.log();
  const int64_t zero_ns = h.steps.front().began_ns;
  const auto steps = spans_by_step(shown, h);
  std::string events;
  const auto add = [&events](const std::string& more) {
    if (!events.empty() && !more.empty()) events += ",\n";
    events += more;
  };
  for (size_t i = 0; i < steps.size(); ++i) add(telemetry::trace_events(steps[i], i, zero_ns));
  for (size_t i = 0; i < s.faults.size(); ++i)
    if (h.faults[i].happened)
      add(fmt::format("{{\"name\":{},\"cat\":\"fault\",\"ph\":\"i\",\"s\":\"g\",\"pid\":0,\"tid\":0,\"ts\":{}}}",
                      core::json_string("fault: " + s.faults[i].text),
                      core::text_of("%.3f", double(h.faults[i].at_ns - zero_ns) / 1e3)));
  return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + telemetry::trace_names(steps.front()) + events + "\n]}\n";
}

}  // namespace troupe::apps
