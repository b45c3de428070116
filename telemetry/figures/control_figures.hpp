// Computes the cost of control in a step from the spans of its lanes: the time between the moment when an instruction
// could have started and its start. Pure. Waiting for data, for communication or for another rank is not control,
// because it ends with the last dependency.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "telemetry/spans.hpp"

namespace troupe::telemetry {

/// Control figures of one step. An instruction could have started when its last dependency had ended and, in a lane
/// that runs one instruction at a time, when the instruction before it had ended.
struct control_figures {
  /// Seconds in which the compute lane was idle although its next instruction could have started and a core was free
  /// (fewer lanes of the process worked than it has cores). Mean over the ranks.
  double idle_s = 0;
  /// Seconds in which the next instruction could have started, but working lanes occupied every core; mean over the
  /// ranks.
  double no_core_s = 0;
  /// Seconds of the step, as the session measures it, before the first and after the last instruction of all ranks.
  double between_s = 0;
  /// Microseconds from "could have started" to the start, if the last dependency was in the instruction's own lane and
  /// no other lane was notified of its end. Median and 99th percentile over the instructions of all lanes.
  double in_lane_us = 0, in_lane_p99_us = 0;
  /// Microseconds from "could have started" to the start, if the last dependency was in another lane. Median and 99th
  /// percentile over the instructions of all lanes.
  double cross_lane_us = 0, cross_lane_p99_us = 0;
};

/// The moment when an instruction could have started, and the dependency that it waited for last.
struct readiness {
  int64_t at_ns = 0;        ///< time in ns at which the instruction could have started; 0: it waited for nothing
  bool same_lane = true;    ///< true if the last dependency is in the instruction's own lane
  bool told_other = false;  ///< true if the end of the last dependency was also reported to another lane
};
/// Returns the readiness of every instruction of a rank's step, indexed by instruction id. Requires that all
/// instructions of the step have ended.
std::vector<readiness> readiness_of(const rank_spans& rank);

/// Computes the control figures of one step without failure from the times of its ranks. `cores` is the number of CPU
/// cores that the lanes of these ranks share; 0: unlimited. Leaves `between_s` 0; the caller sets it.
control_figures control_of(std::span<const rank_spans> ranks, uint32_t cores);

/// Updates the running means `mean` with figures `x`, the latest of `steps` steps.
void take_mean(control_figures& mean, const control_figures& x, uint64_t steps);

}  // namespace troupe::telemetry
