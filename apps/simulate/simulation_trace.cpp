#include <fmt/format.h>

#include "apps/simulate/simulated_spans.hpp"
#include "apps/simulate/simulation_text.hpp"
#include "core/text.hpp"
#include "telemetry/figures/trace.hpp"

namespace troupe::apps {
std::string simulation_as_trace(const simulation& s) {
  const auto& shown = s.faulty ? *s.faulty : s.healthy;
  const auto& h = shown.run.log();
  const int64_t zero_ns = h.steps.front().began_ns;
  const auto steps = spans_by_step(shown);
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
