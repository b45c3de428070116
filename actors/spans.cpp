#include "actors/spans.hpp"

#include <algorithm>
#include <utility>

namespace troupe::actors {

std::vector<telemetry::rank_spans> spans_of(const run_contexts& ranks) {
  std::vector<telemetry::rank_spans> out;
  out.reserve(ranks.size());
  for (const auto& c : ranks) {
    telemetry::rank_spans r{.plan = c->program->plan, .spans = {}};
    r.skipped = c->decide().skipped;
    r.clipped = c->decide().clipped;
    r.spans.reserve(c->spans.size());
    for (const auto& s : c->spans)
      r.spans.push_back({s.start_ns.load(std::memory_order_relaxed), s.end_ns.load(std::memory_order_relaxed)});
    std::ranges::copy(c->worked, r.moved);
    for (const auto& seats : c->program->told) r.told_others.push_back(!seats.empty());
    out.push_back(std::move(r));
  }
  return out;
}

}  // namespace troupe::actors
