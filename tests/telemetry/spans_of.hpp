// Provides steps of a small GPT on a few ranks, with the spans that the cost model predicts.
#pragma once

#include <cmath>
#include <vector>

#include "plan/choose/cost.hpp"
#include "telemetry/spans.hpp"
#include "tests/plan/pipeline_samples.hpp"

namespace troupe::telemetry {

/// Returns the predicted spans of a step that begins at `zero_ns`.
inline std::vector<rank_spans> played(const plan::shared_plans& plans, int64_t zero_ns = 1'000'000'000) {
  const auto t = plan::predict(plans, plan::cost_model{});
  std::vector<rank_spans> out;
  for (size_t r = 0; r < plans.size(); ++r) {
    rank_spans s{.plan = plans[r], .spans = {}};
    for (const auto& i : t.ranks[r].instructions)
      s.spans.push_back({zero_ns + std::llround(i.start_s * 1e9), zero_ns + std::llround(i.end_s * 1e9)});
    s.told_others.assign(s.spans.size(), false);
    out.push_back(std::move(s));
  }
  return out;
}

inline std::vector<rank_spans> played_gpt(uint32_t ranks, uint32_t stage = 3, uint32_t accumulation = 1) {
  return played(plan::plans_of(plan::gpt_table(2, 64, 256, false), plan::small_options(ranks, stage, accumulation)));
}

/// Returns the predicted spans of a step of a GPT with six units that is cut into stages.
inline std::vector<rank_spans> played_pipeline(const std::string& schedule = "1f1b", uint32_t ranks = 2,
                                               uint32_t chunks = 1, uint32_t stage = 3) {
  return played(
      plan::plans_of(plan::gpt_table(4, 64, 256, false), plan::options_of_pipeline(schedule, ranks, chunks, stage)));
}

}  // namespace troupe::telemetry
