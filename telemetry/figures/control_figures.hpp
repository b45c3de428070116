// Computes the cost of control in a step from the spans of its lanes: the time between the moment when an instruction
// could have started and its start. Pure. Waiting for data, for communication or for another rank is not control,
// because it ends with the last dependency.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "telemetry/spans.hpp"

namespace troupe::telemetry {

/// Control figures of one step. An instruction could have started when its last dependency had ended; in lanes that run
/// one instruction at a time, also its predecessor.
struct control_figures {
  /// Seconds in which the compute lane was idle although its next instruction could have started and a core was free
  /// (fewer lanes of the process worked than it has cores). Mean over the ranks.
  double idle_s = 0;
  /// Seconds in which the next instruction could have started, but working lanes occupied every core; mean over the
  /// ranks.
  double no_core_s = 0;
  /// Seconds of the caller's step before its first and after its last instruction; mean over the ranks
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
  int64_t at_ns = 0;        ///< time in ns when it could start; 0: when the run began
  bool same_lane = true;    ///< true if the last dependency is in the instruction's own lane
  bool told_other = false;  ///< true if the end of the last dependency was also reported to another lane
};
/// Returns the readiness of every instruction, by id, of a run that has ended well.
std::vector<readiness> readiness_of(const rank_spans& rank);

/// Computes the figures of one run that has ended well. `cores` is the number of cores that its lanes share, 0:
/// unlimited. The caller sets `between_s`.
control_figures control_of(std::span<const rank_spans> ranks, uint32_t cores);

/// Updates the running means `mean` with figures `x`, the latest of `steps` steps.
void take_mean(control_figures& mean, const control_figures& x, uint64_t steps);

}  // namespace troupe::telemetry
