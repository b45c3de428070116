// Computes the costs of a pipeline's stages in a step: planned and measured idle time of their ranks, activations in
// flight, gathers, bytes sent. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::telemetry {

class instruction_times;

/// Figures of one pipeline stage. Idle times are means over the stage's ranks of the seconds in which a rank's
/// compute lane is idle; the lane computes all stages of its rank. Counts and bytes are of one rank of the stage.
struct stage_figures {
  uint32_t stage = 0;
  std::vector<uint32_t> ranks;
  uint32_t units = 0;             ///< number of units in the stage
  uint32_t micros_in_flight = 0;  ///< largest number of micro-batches whose activations the stage holds
  uint64_t gathers = 0;
  /// Bytes of activations, their gradients and gradients of tied weights that are sent to ranks of other stages.
  uint64_t sent_bytes = 0;
  double planned_idle_s = 0, measured_idle_s = 0;
};

/// Figures of a pipeline's step. "Planned" figures come from a simulation of the plan with the run's own mean
/// instruction times and no time between instructions; "measured" figures are means over the recorded steps.
struct pipeline_figures {
  uint64_t steps = 0;  ///< number of steps in the means; 0 without a pipeline, or if no step was recorded
  double planned_step_s = 0, measured_step_s = 0;
  std::vector<stage_figures> stages;
  [[nodiscard]] double planned_idle(const stage_figures& s) const;   ///< planned idle time / planned time of a step
  [[nodiscard]] double measured_idle(const stage_figures& s) const;  ///< measured idle time / measured time of a step
  /// Returns the measured idle time minus the planned idle time, as a share of the measured step. Every rank has the
  /// same value, because its instructions take equally long in the simulation and in the measured step.
  [[nodiscard]] double idle_beyond_plan() const;
};

/// Computes the figures of a run from the times of its instructions.
pipeline_figures pipeline_of(const instruction_times& times);

/// Returns the stages as text: a line of headings and a line for each stage, with line ends.
std::string stage_table(const pipeline_figures& p);
std::string stage_json(const pipeline_figures& p);

}  // namespace troupe::telemetry
