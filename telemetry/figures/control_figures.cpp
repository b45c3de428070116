#include "telemetry/figures/control_figures.hpp"

#include <algorithm>

#include "plan/lane_order.hpp"
#include "telemetry/mean.hpp"

namespace troupe::telemetry {
namespace {

// Returns the intervals in which at least `cores` lanes of all ranks were working.
std::vector<interval> all_cores_taken(std::span<const rank_spans> ranks, uint32_t cores) {
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
    for (const auto& x : c.plan->instructions)
      if (x.lane != plan::lane::control && !plan::starts_ahead(x.lane))
        works(c.spans[x.id].start_ns, c.spans[x.id].end_ns);
    for (const auto& lane : c.moved)
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

std::vector<readiness> readiness_of(const rank_spans& rank) {
  const auto& p = *rank.plan;
  std::vector<readiness> out(p.instructions.size());
  for (const auto& order : p.lanes) {
    uint32_t before = plan::none;  // id of the instruction that precedes `x` in the lane's order
    for (uint32_t id : order) {
      const auto& x = p.instructions[id];
      readiness& r = out[id];
      uint32_t last = plan::none;
      // In a lane that starts no instruction ahead, `x` starts only after `before` has ended.
      if (before != plan::none && !plan::starts_ahead(x.lane)) {
        last = before;
        r.at_ns = rank.spans[last].end_ns;
      }
      for (uint32_t on : x.after)
        if (rank.spans[on].end_ns > r.at_ns) r.at_ns = rank.spans[on].end_ns, last = on;
      before = id;
      if (last == plan::none) continue;
      r.same_lane = p.instructions[last].lane == x.lane;
      r.told_other = rank.told_others[last];
    }
  }
  return out;
}

control_figures control_of(std::span<const rank_spans> ranks, uint32_t cores) {
  control_figures out;
  std::vector<double> in_lane, cross_lane;
  const auto taken = cores > 0 ? all_cores_taken(ranks, cores) : std::vector<interval>{};
  const double n = double(ranks.size()) * 1e9;
  for (const auto& c : ranks) {
    std::vector<interval> stood;
    const auto ready = readiness_of(c);
    for (const auto& x : c.plan->instructions) {
      const readiness& r = ready[x.id];
      const int64_t start = c.spans[x.id].start_ns;
      if (r.at_ns == 0 || start < r.at_ns) continue;
      const double waited_us = double(start - r.at_ns) / 1e3;
      if (!r.same_lane)
        cross_lane.push_back(waited_us);
      else if (!r.told_other)
        in_lane.push_back(waited_us);
      if (x.lane == plan::lane::compute) stood.push_back({r.at_ns, start});
    }
    stood = joined(std::move(stood));
    const int64_t no_core = common_length_ns(stood, taken);
    out.no_core_s += double(no_core) / n;
    out.idle_s += double(length_ns(stood) - no_core) / n;
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
  take_mean(mean.idle_s, x.idle_s, steps);
  take_mean(mean.no_core_s, x.no_core_s, steps);
  take_mean(mean.between_s, x.between_s, steps);
  take_mean(mean.in_lane_us, x.in_lane_us, steps);
  take_mean(mean.in_lane_p99_us, x.in_lane_p99_us, steps);
  take_mean(mean.cross_lane_us, x.cross_lane_us, steps);
  take_mean(mean.cross_lane_p99_us, x.cross_lane_p99_us, steps);
}

}  // namespace troupe::telemetry
