// Divides a step by the kinds of its instructions so that each moment counts once: what other work hides does not
// count. Works on measured and predicted times. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "telemetry/spans.hpp"

namespace troupe::telemetry {

/// Seconds of a step, means over the ranks. All kinds and `idle_s` add up to the mean of the ranks' steps.
struct step_division {
  /// Seconds in which an instruction of the kind worked, and no lane before its own did, nor an earlier kind of its own
  /// lane. The lanes are ordered compute, shard, fabric, io, writer, control.
  std::map<plan::kind, double> exposed_s;
  double idle_s = 0;  ///< seconds in which no lane of the rank worked
};

/// Divides one step. A collective works from when its last member has posted it, a swap from when it was requested.
/// `posted` must have been computed from the same ranks.
step_division divide(std::span<const rank_spans> ranks, const posted_times& posted);

/// Updates `mean` to the means over `steps` steps, of which `x` is the latest.
void take_mean(step_division& mean, const step_division& x, uint64_t steps);

}  // namespace troupe::telemetry
