#include "actors/control_figures.hpp"

#include <algorithm>

#include "actors/span_times.hpp"
#include "telemetry/spans.hpp"

namespace troupe::actors {
namespace {

using telemetry::interval;

// When at least `cores` lanes of all ranks had their hands full.
std::vector<interval> all_cores_taken(const std::vector<std::shared_ptr<step_context>>& ranks, uint32_t cores) {
  struct edge {
    int64_t at_ns;
    int32_t change;
  };
  std::vector<edge> edges;
  const auto works = [&](int64_t from, int64_t to) {
    if (from >= to) return;
    edges.push_back({from, 1});
    edges.push_back({to, -1});
  };
  for (const auto& c : ranks) {
    for (const auto& x : c->plan().instructions)
      if (x.lane != plan::lane::control && !starts_ahead(x.lane)) works(start_of(*c, x.id), end_of(*c, x.id));
    for (const auto& lane : c->worked)
      for (const auto& i : lane) works(i.start_ns, i.end_ns);
  }
  std::sort(edges.begin(), edges.end(),
            [](const edge& a, const edge& b) { return a.at_ns != b.at_ns ? a.at_ns < b.at_ns : a.change < b.change; });
  std::vector<interval> out;
  int32_t busy = 0;
  const auto full = static_cast<int32_t>(cores);
  for (const auto& e : edges) {
    if (e.change > 0 && busy + 1 == full) out.push_back({e.at_ns, e.at_ns});
    if (e.change < 0 && busy == full) out.back().end_ns = e.at_ns;
    busy += e.change;
  }
  return out;
}

double of_sorted(const std::vector<double>& v, double share) {
  return v.empty() ? 0 : v[std::min(v.size() - 1, static_cast<size_t>(share * double(v.size())))];
}

}  // namespace

readiness ready(const step_context& c, uint32_t id) {
  readiness r;
  const auto& p = c.plan();
  const auto& x = p.instructions[id];
  const uint32_t position = c.program->position[id];
  uint32_t last = plan::none;
  if (position > 0 && !starts_ahead(x.lane)) {  // else the predecessor need not have ended
    last = p.lanes[static_cast<size_t>(x.lane)][position - 1];
    r.at_ns = end_of(c, last);
  }
  for (uint32_t on : x.after)
    if (end_of(c, on) > r.at_ns) r.at_ns = end_of(c, on), last = on;
  if (last == plan::none) return r;
  r.same_lane = p.instructions[last].lane == x.lane;
  r.told_other = c.program->lanes_waiting[last] != 0;
  return r;
}

control_figures control_of(const std::vector<std::shared_ptr<step_context>>& ranks, uint32_t cores) {
  control_figures out;
  std::vector<double> in_lane, cross_lane;
  const auto taken = cores > 0 ? all_cores_taken(ranks, cores) : std::vector<interval>{};
  const double n = double(ranks.size()) * 1e9;
  for (const auto& c : ranks) {
    std::vector<interval> stood;
    for (const auto& x : c->plan().instructions) {
      const readiness r = ready(*c, x.id);
      const int64_t start = start_of(*c, x.id);
      if (r.at_ns == 0 || start < r.at_ns) continue;
      const double waited_us = double(start - r.at_ns) / 1e3;
      if (!r.same_lane)
        cross_lane.push_back(waited_us);
      else if (!r.told_other)
        in_lane.push_back(waited_us);
      if (x.lane == plan::lane::compute) stood.push_back({r.at_ns, start});
    }
    stood = telemetry::joined(std::move(stood));
    const int64_t no_core = telemetry::common_length_ns(stood, taken);
    out.no_core_s += double(no_core) / n;
    out.idle_s += double(telemetry::length_ns(stood) - no_core) / n;
  }
  std::sort(in_lane.begin(), in_lane.end());
  std::sort(cross_lane.begin(), cross_lane.end());
  out.in_lane_us = of_sorted(in_lane, 0.5);
  out.in_lane_p99_us = of_sorted(in_lane, 0.99);
  out.cross_lane_us = of_sorted(cross_lane, 0.5);
  out.cross_lane_p99_us = of_sorted(cross_lane, 0.99);
  return out;
}

void take_mean(control_figures& mean, const control_figures& x, uint64_t steps) {
  const auto into = [steps](double& to, double value) { to += (value - to) / double(steps); };
  into(mean.idle_s, x.idle_s);
  into(mean.no_core_s, x.no_core_s);
  into(mean.between_s, x.between_s);
  into(mean.in_lane_us, x.in_lane_us);
  into(mean.in_lane_p99_us, x.in_lane_p99_us);
  into(mean.cross_lane_us, x.cross_lane_us);
  into(mean.cross_lane_p99_us, x.cross_lane_p99_us);
}

}  // namespace troupe::actors
