#include "telemetry/figures/step_division.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "telemetry/mean.hpp"

namespace troupe::telemetry {
namespace {

constexpr plan::lane by_order[] = {plan::lane::compute, plan::lane::shard,  plan::lane::fabric,
                                   plan::lane::io,      plan::lane::writer, plan::lane::control};

void add_rank(step_division& out, const rank_spans& rank, const posted_times& posted, double ranks) {
  std::map<plan::kind, std::vector<interval>> by_kind[plan::num_lanes];
  int64_t first = INT64_MAX, last = INT64_MIN;
  for (const auto& x : rank.plan->instructions) {
    const interval whole = rank.spans[x.id];
    if (whole.start_ns == not_run_ns) continue;
    first = std::min(first, whole.start_ns);
    last = std::max(last, whole.end_ns);
    if (rank.acted(x.guard))
      by_kind[static_cast<size_t>(x.lane)][x.kind].push_back(x.sequence == plan::none ? whole
                                                                                      : moving(rank, x.id, posted));
  }
  if (last < first) return;
  std::vector<interval> covered;
  int64_t covered_ns = 0;
  for (const plan::lane l : by_order)
    for (auto& [kind, spans] : by_kind[static_cast<size_t>(l)]) {
      covered.insert(covered.end(), spans.begin(), spans.end());
      covered = joined(std::move(covered));
      const int64_t now_ns = length_ns(covered);
      out.exposed_s[kind] += double(now_ns - covered_ns) / (ranks * 1e9);
      covered_ns = now_ns;
    }
  out.idle_s += double(std::max<int64_t>(0, last - first - covered_ns)) / (ranks * 1e9);
}

}  // namespace

step_division divide(std::span<const rank_spans> ranks, const posted_times& posted) {
  step_division out;
  for (const auto& rank : ranks) add_rank(out, rank, posted, double(ranks.size()));
  return out;
}

void take_mean(step_division& mean, const step_division& x, uint64_t steps) {
  for (const auto& [kind, seconds] : x.exposed_s) mean.exposed_s.try_emplace(kind, 0.0);
  for (auto& [kind, seconds] : mean.exposed_s) {
    const auto now = x.exposed_s.find(kind);
    take_mean(seconds, now == x.exposed_s.end() ? 0.0 : now->second, steps);
  }
  take_mean(mean.idle_s, x.idle_s, steps);
}

}  // namespace troupe::telemetry
