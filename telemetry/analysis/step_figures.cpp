#include "telemetry/analysis/step_figures.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "telemetry/spans.hpp"

namespace troupe::telemetry {
namespace {

// Returns [rank] the times in which a rank computes or updates.
std::vector<std::vector<interval>> busy_of(const traced_step& s) {
  std::vector<std::vector<interval>> out(s.ranks.size());
  for (const auto& x : s.spans)
    if (x.sort == work_sort::compute || x.sort == work_sort::update) out[x.rank].push_back({x.start_ns, x.end_ns});
  for (auto& one : out) one = joined(std::move(one));
  return out;
}

std::vector<path_share> shares_of(const step_graph& g) {
  const auto& s = g.step();
  std::map<std::tuple<std::string, work_sort, bool>, int64_t> sums;
  for (const auto& p : g.critical_path()) {
    const auto& x = s.spans[p.span];
    sums[{p.idle ? s.lanes[x.lane].name : s.kinds[x.kind], x.sort, p.idle}] += p.length_ns();
  }
  std::vector<path_share> out;
  for (const auto& [key, ns] : sums) out.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), ns});
  std::ranges::stable_sort(out, std::greater<>(), &path_share::ns);
  return out;
}

std::vector<exposed_kind> exposed_of(const step_graph& g, const std::vector<std::vector<interval>>& busy) {
  const auto& s = g.step();
  struct sum {
    std::map<uint32_t, std::vector<interval>> moving;  // [rank]
    std::set<uint32_t> collectives;
    uint64_t alone = 0;  // number of transfers without another member in the trace
  };
  std::map<uint32_t, sum> kinds;
  for (uint32_t i = 0; i < s.spans.size(); ++i) {
    const auto& x = s.spans[i];
    if (x.sort != work_sort::communication) continue;
    auto& k = kinds[x.kind];
    k.moving[x.rank].push_back({g.began_ns(i), x.end_ns});
    if (x.collective == no_index)
      ++k.alone;
    else
      k.collectives.insert(x.collective);
  }
  std::vector<exposed_kind> out;
  for (auto& [kind, k] : kinds) {
    exposed_kind one{s.kinds[kind], k.collectives.size() + k.alone, 0, 0};
    for (auto& [rank, intervals] : k.moving) {
      const auto moving = joined(std::move(intervals));
      one.moving_ns += length_ns(moving);
      one.exposed_ns += length_ns(moving) - common_length_ns(moving, busy[rank]);
    }
    one.moving_ns /= static_cast<int64_t>(k.moving.size());
    one.exposed_ns /= static_cast<int64_t>(k.moving.size());
    out.push_back(std::move(one));
  }
  std::ranges::stable_sort(out, std::greater<>(), &exposed_kind::exposed_ns);
  return out;
}

std::vector<rank_wait> waits_of(const step_graph& g, const std::vector<std::vector<interval>>& busy) {
  const auto& s = g.step();
  std::map<std::pair<uint32_t, uint32_t>, std::vector<interval>> waits;  // [rank, rank that arrived last]
  for (uint32_t k = 0; k < s.collectives; ++k) {
    const auto& members = g.members(k);
    if (members.size() < 2) continue;
    const auto& last = s.spans[*std::ranges::max_element(members, {}, [&](uint32_t i) { return s.spans[i].start_ns; })];
    for (const uint32_t i : members)
      if (const auto& x = s.spans[i]; x.rank != last.rank && x.start_ns < last.start_ns)
        waits[{x.rank, last.rank}].push_back({x.start_ns, last.start_ns});
  }
  std::vector<rank_wait> out;
  for (auto& [pair, intervals] : waits) {
    const auto all = joined(std::move(intervals));
    const int64_t ns = length_ns(all) - common_length_ns(all, busy[pair.first]);
    if (ns > 0) out.push_back({s.ranks[pair.first], s.ranks[pair.second], ns});
  }
  std::ranges::stable_sort(out, std::greater<>(), &rank_wait::ns);
  return out;
}

}  // namespace

step_figures figures_of(const step_graph& g) {
  const auto busy = busy_of(g.step());
  return {g.step().number, g.bounds().length_ns(), shares_of(g), exposed_of(g, busy), waits_of(g, busy)};
}

}  // namespace troupe::telemetry
