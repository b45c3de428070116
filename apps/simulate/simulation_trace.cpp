#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/simulate/simulated_spans.hpp"
#include "apps/simulate/simulation_text.hpp"
#include "core/text.hpp"
#include "telemetry/figures/trace.hpp"

namespace troupe::apps {
namespace {

/// Returns a counter of each rank's memory in use by owner, an event for each moment at which it changes.
std::string memory_counters(const sim::history& h, int64_t zero_ns) {
  struct change {
    uint32_t owner = 0;
    int64_t bytes = 0;
  };
  std::map<std::pair<uint32_t, int64_t>, std::vector<change>> changes;  // [rank, time]
  for (const sim::holding& x : h.memory) {
    changes[{x.rank, x.from_ns}].push_back({x.owner, static_cast<int64_t>(x.bytes)});
    changes[{x.rank, x.to_ns}].push_back({x.owner, -static_cast<int64_t>(x.bytes)});
  }
  std::string out;
  std::vector<int64_t> held;  // [owner], of `of`
  uint32_t of = 0;
  for (const auto& [at, all] : changes) {
    const auto& [rank, at_ns] = at;
    if (rank != of || held.empty()) held.assign(h.owners.size(), 0);
    of = rank;
    for (const change& x : all) held[x.owner] += x.bytes;
    std::string values;
    for (size_t k = 0; k < held.size(); ++k)
      values += fmt::format("{}{}:{}", k == 0 ? "" : ",", core::json_string(h.owners[k]), held[k]);
    out += fmt::format("{}{{\"name\":\"memory in use, bytes\",\"ph\":\"C\",\"pid\":{},\"ts\":{},\"args\":{{{}}}}}",
                       out.empty() ? "" : ",\n", rank, core::text_of("%.3f", double(at_ns - zero_ns) / 1e3), values);
  }
  return out;
}

}  // namespace

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
  add(memory_counters(h, zero_ns));
  return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + telemetry::trace_names(steps.front()) + events + "\n]}\n";
}

}  // namespace troupe::apps
