// Computes the division of a step's time by kind of instruction and by unit of the model, from the spans of its lanes.
// Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "telemetry/spans.hpp"

namespace troupe::telemetry {

/// Work figures of one step on one rank. Times are means over the ranks; times of a unit over the ranks that compute
/// it. In a pipeline, counts are sums over one rank for each part of the model (stage_leaders).
struct work_figures {
  struct of_kind {
    plan::kind kind{};
    uint64_t count = 0;
    double busy_s = 0;  ///< sum of the times in seconds; a collective's time begins when its last member has posted it
  };
  struct of_unit {
    double forward_s = 0, backward_s = 0;  ///< seconds of a unit; backward includes recomputation
    /// Floating point operations by the model's table; backward counts two products for one of forward.
    double forward_flops = 0, backward_flops = 0;
  };
  std::vector<of_kind> kinds;  ///< figures by kind of instruction, for the kinds in the plan
  std::vector<of_unit> units;  ///< [unit]: figures of the unit
};

/// Computes the work figures of one step without failure from the times of its ranks. `posted` must have been computed
/// from the same `ranks`.
work_figures work_of(std::span<const rank_spans> ranks, const posted_times& posted);

/// Updates `mean` to the means over `steps` steps, of which `x` is the latest. The steps have one plan, or plans that
/// differ only in saving.
void take_mean(work_figures& mean, const work_figures& x, uint64_t steps);

}  // namespace troupe::telemetry
