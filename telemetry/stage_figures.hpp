// What the stages of a pipeline cost in a step: idle time of their ranks as planned and as measured, activations in
// flight, gathers, bytes sent. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "telemetry/instruction_times.hpp"

namespace troupe::telemetry {

/// Figures of one stage. Idle times are those of its ranks' compute lanes, which their other stages share: means over
/// these ranks. Counts and bytes are of one of them.
struct stage_figures {
  uint32_t stage = 0;
  std::vector<uint32_t> ranks;
  uint32_t units = 0;
  uint32_t micros_in_flight = 0;  ///< micro-batches whose activations it holds, at most
  uint64_t gathers = 0;
  uint64_t sent_bytes = 0;  ///< activations, their gradients, those of tied weights, to ranks of other stages
  double planned_idle_s = 0, measured_idle_s = 0;
};

/// A step of a pipeline. Planned: the plan played with the mean times that the run's own instructions took, and nothing
/// between them.
struct pipeline_figures {
  uint64_t steps = 0;  ///< in the means; 0 where the model is not cut, or no step was recorded
  double planned_step_s = 0, measured_step_s = 0;
  std::vector<stage_figures> stages;
  [[nodiscard]] double planned_idle(const stage_figures& s) const;   ///< as a share of the step
  [[nodiscard]] double measured_idle(const stage_figures& s) const;  ///< likewise
  /// Idle time beyond the planned, as a share of the measured step: the same on every rank, whose work is as long in
  /// both.
  [[nodiscard]] double idle_beyond_plan() const;
};

/// Of a run.
pipeline_figures pipeline_of(const instruction_times& times);

/// A line of headings and one for each stage, with line ends; and as a JSON object.
std::string stage_table(const pipeline_figures& p);
std::string stage_json(const pipeline_figures& p);

}  // namespace troupe::telemetry
