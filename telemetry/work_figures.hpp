// Where a step's time goes: by kind of instruction and by unit of the model, from the spans the lanes left. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "telemetry/spans.hpp"

namespace troupe::telemetry {

/// Figures of one step on one rank, times as means over the ranks, of a unit over those that compute it. In a pipeline
/// counts are of one rank for each part of the model together (stage_leaders).
struct work_figures {
  struct of_kind {
    plan::kind kind = plan::kind::load;
    uint64_t count = 0;
    double busy_s = 0;  ///< sum; of collectives from when their last member had come
  };
  struct of_unit {
    double forward_s = 0, backward_s = 0;          ///< backward with recomputation
    double forward_flops = 0, backward_flops = 0;  ///< as the model's table has them; backward is two products for one
  };
  std::vector<of_kind> kinds;  ///< those that the plan has
  std::vector<of_unit> units;  ///< [unit]
};

/// Of one run that has ended well; `posted` is of the same ranks.
work_figures work_of(std::span<const rank_spans> ranks, const posted_times& posted);

/// Means over `steps` steps of one plan, or of plans that differ in saving, of which `x` is the latest.
void take_mean(work_figures& mean, const work_figures& x, uint64_t steps);

}  // namespace troupe::telemetry
