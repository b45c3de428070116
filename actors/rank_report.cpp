#include "actors/rank_report.hpp"

#include <algorithm>
#include <utility>

#include "plan/vote_layout.hpp"

namespace troupe::actors {

telemetry::rank_spans spans_of(step_context& run) {
  telemetry::rank_spans out{.plan = run.program->plan, .spans = {}};
  if (run.plan().options().mode == plan::mode::train) {
    out.skipped = run.decide().skipped;
    out.clipped = run.decide().clipped;
  }
  out.spans.resize(run.spans.size());
  auto to = out.spans.begin();
  for (const auto& s : run.spans)
    *to++ = {s.start_ns.load(std::memory_order_relaxed), s.end_ns.load(std::memory_order_relaxed)};
  std::ranges::copy(run.worked, out.moved);
  out.told_others = run.program->tells;
  return out;
}

rank_report report_of(step_context& run) {
  rank_report out{.rank = run.plan().rank, .decided = {}, .losses = {}, .spans = spans_of(run), .outputs = {}};
  const plan::mode mode = run.plan().options().mode;
  if (mode == plan::mode::train || mode == plan::mode::evaluate) out.decided = run.decide();
  if (mode == plan::mode::evaluate)
    for (uint32_t m = 0; m < run.micros(); ++m)
      for (uint32_t r = 0; r < run.plan().options().data(); ++r)
        out.losses.push_back(run.votes[plan::loss_offset(*run.plan().layout, r, m)]);
  out.outputs = std::exchange(run.logits, {});
  return out;
}

}  // namespace troupe::actors
