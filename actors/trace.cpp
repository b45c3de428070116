#include "actors/trace.hpp"

#include <algorithm>
#include <cstdio>

namespace troupe::actors {
namespace {

struct interval {
  int64_t start = 0, end = 0;
};

int64_t start_of(const step_context& c, uint32_t id) { return c.spans[id].start_ns.load(std::memory_order_relaxed); }
int64_t end_of(const step_context& c, uint32_t id) { return c.spans[id].end_ns.load(std::memory_order_relaxed); }

// Sorted, overlapping ones joined.
std::vector<interval> joined(std::vector<interval> v) {
  std::sort(v.begin(), v.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  std::vector<interval> out;
  for (const auto& i : v) {
    if (!out.empty() && i.start <= out.back().end)
      out.back().end = std::max(out.back().end, i.end);
    else
      out.push_back(i);
  }
  return out;
}
int64_t length(const std::vector<interval>& v) {
  int64_t n = 0;
  for (const auto& i : v) n += i.end - i.start;
  return n;
}
int64_t common_length(const std::vector<interval>& a, const std::vector<interval>& b) {
  int64_t n = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    n += std::max<int64_t>(0, std::min(a[i].end, b[j].end) - std::max(a[i].start, b[j].start));
    a[i].end < b[j].end ? ++i : ++j;
  }
  return n;
}

// When an instruction could have started: the end of its last dependency or of its predecessor in the lane.
struct readiness {
  int64_t at = 0;
  bool same_lane = true;
};
readiness ready(const step_context& c, const plan::instruction& x) {
  readiness r;
  const auto& p = c.plan();
  const uint32_t position = c.program->position[x.id];
  // The fabric lane posts ahead: its predecessor need not have ended.
  if (position > 0 && x.lane != plan::lane::fabric)
    r.at = end_of(c, p.lanes[static_cast<size_t>(x.lane)][position - 1]);
  for (uint32_t on : x.after)
    if (end_of(c, on) > r.at) r = {end_of(c, on), p.instructions[on].lane == x.lane};
  return r;
}

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::nth_element(v.begin(), v.begin() + static_cast<long>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

}  // namespace

step_summary summarise(const run_contexts& ranks) {
  step_summary s;
  const double n = double(ranks.size()) * 1e9;
  std::vector<double> in_lane, cross_lane;
  for (const auto& c : ranks) {
    const auto& p = c->plan();
    std::vector<interval> busy[plan::num_lanes], moving;
    int64_t first = INT64_MAX, last = 0;
    for (const auto& x : p.instructions) {
      const interval i{start_of(*c, x.id), end_of(*c, x.id)};
      first = std::min(first, i.start);
      last = std::max(last, i.end);
      busy[static_cast<size_t>(x.lane)].push_back(i);
      if (x.sequence != plan::none) {
        int64_t all_here = i.start;
        for (const auto& peer : ranks) all_here = std::max(all_here, start_of(*peer, x.id));
        moving.push_back({std::min(all_here, i.end), i.end});
      }
      const readiness r = ready(*c, x);
      if (r.at > 0 && i.start >= r.at) (r.same_lane ? in_lane : cross_lane).push_back(double(i.start - r.at) / 1e3);
    }
    const auto moved = joined(moving);
    std::vector<interval> compute = joined(busy[static_cast<size_t>(plan::lane::compute)]);
    s.step_s += double(last - first) / n;
    s.compute_s += double(length(compute)) / n;
    s.communication_s += double(length(moved)) / n;
    s.exposed_s += double(length(moved) - common_length(moved, compute)) / n;
    for (size_t l = 0; l < plan::num_lanes; ++l) s.idle_s[l] += double(last - first - length(joined(busy[l]))) / n;
  }
  for (const auto& x : ranks.front()->plan().instructions) {
    s.gathers += x.kind == plan::kind::gather;
    s.releases += x.kind == plan::kind::release;
    s.reductions += x.kind == plan::kind::reduce;
  }
  s.wait_in_lane_us = median(std::move(in_lane));
  s.wait_cross_lane_us = median(std::move(cross_lane));
  return s;
}

std::string trace_events(const run_contexts& ranks, uint64_t step, int64_t zero_ns) {
  std::string out;
  char line[512];
  for (const auto& c : ranks) {
    const auto& p = c->plan();
    for (const auto& x : p.instructions) {
      const readiness r = ready(*c, x);
      const int64_t start = start_of(*c, x.id), end = end_of(*c, x.id);
      const double wait_us = r.at > 0 && start > r.at ? double(start - r.at) / 1e3 : 0.0;
      std::snprintf(line, sizeof line,
                    "%s{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,"
                    "\"args\":{\"step\":%llu,\"id\":%u,\"bytes\":%llu,\"waited_us\":%.1f}}",
                    out.empty() ? "" : ",\n", p.describe(x.id).c_str(), std::string(plan::name_of(x.kind)).c_str(),
                    p.rank, static_cast<unsigned>(x.lane), double(start - zero_ns) / 1e3, double(end - start) / 1e3,
                    static_cast<unsigned long long>(step), x.id, static_cast<unsigned long long>(x.bytes), wait_us);
      out += line;
    }
  }
  return out;
}

}  // namespace troupe::actors
