// The cost of control in a step, from the spans the lanes left: time between "could have started" and "has started".
// Pure. Waiting for data, for communication or for another rank is not control: it ends when the last dependency does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "telemetry/spans.hpp"

namespace troupe::telemetry {

/// Figures of one step. An instruction could have started when its last dependency, or on lanes that do one at a time
/// its predecessor, had ended.
struct control_figures {
  /// The compute lane stood idle though its next instruction could have started, and a core was free: fewer lanes of
  /// the process worked than it has cores. Mean over the ranks, as the next two.
  double idle_s = 0;
  double no_core_s = 0;  ///< the same while lanes that moved bytes or updated had every core
  double between_s = 0;  ///< of a step as its caller sees it, before the first instruction and after the last
  /// From "could have started" to the start, where the last dependency lay in the same lane and no other lane was told
  /// of its end: median and 99th percentile over the instructions of all lanes.
  double in_lane_us = 0, in_lane_p99_us = 0;
  double cross_lane_us = 0, cross_lane_p99_us = 0;  ///< the same, last dependency in another lane
};

/// When an instruction could have started.
struct readiness {
  int64_t at_ns = 0;        ///< 0: from the beginning of the run
  bool same_lane = true;    ///< as the instruction that it waited for last
  bool told_other = false;  ///< another lane was told of that end, too
};
/// Of every instruction of a run that has ended well. [id]
std::vector<readiness> readiness_of(const rank_spans& rank);

/// Of one run that has ended well; `cores` that its lanes share, 0: as many as they like. `between_s` is its caller's.
control_figures control_of(std::span<const rank_spans> ranks, uint32_t cores);

/// Means over `steps` steps of which `x` is the latest.
void take_mean(control_figures& mean, const control_figures& x, uint64_t steps);

}  // namespace troupe::telemetry
