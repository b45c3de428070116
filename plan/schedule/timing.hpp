// Computes how long a pipeline table takes, and how many bytes it keeps. Owns the clock of actions on ranks; the costs
// of stages are measured or modelled in choose/ and passed in.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/action.hpp"

namespace troupe::plan {

/// The cost of one micro-batch on a stage.
struct stage_cost {
  /// Seconds of the forward (F), the input part (I) and the weight part (W) of backward for one micro-batch; a whole
  /// backward (B) takes the sum of I and W.
  double forward_s = 0, backward_input_s = 0, backward_weight_s = 0;
  uint64_t activation_bytes = 0;   ///< bytes of activations, kept from the start of F to the end of B or I
  uint64_t weight_part_bytes = 0;  ///< bytes for a stage's weight part, kept from the end of I to the end of W
};

/// The costs of all stages, and of transfers between them.
struct pipeline_costs {
  std::vector<stage_cost> stages;
  /// seconds of the transfer of an output or gradient to another rank; it does not slow down computation
  double transfer_s = 0;
};

/// Start and end of an action, in seconds since the step began.
struct action_time {
  double start_s = 0, end_s = 0;
};

/// Times of the actions of one rank in a step.
struct rank_timing {
  /// [position]: start and end of the action; for one that does not compute, both are the rank's time at that point.
  std::vector<action_time> actions;
  double busy_s = 0;
  /// seconds without computation between the start of the rank's first action and the end of its last
  double idle_s = 0;
  double end_s = 0;
  uint64_t peak_bytes = 0;  ///< peak bytes of activations and of data that weight parts need
};

/// Times of the actions of all ranks in a step.
struct table_timing {
  std::vector<rank_timing> ranks;
  double total_s = 0;  ///< seconds from the start of the step to the end of the last action
};

/// Simulates a pipeline table in which find_fault() finds no fault. Each rank runs its actions in order; an action
/// starts when the rank is free and the action's inputs have arrived. An action of type overlap runs as its forward and
/// then its backward, without any saving of time. A table that does not train keeps nothing after the end of a forward.
/// If all costs are whole numbers, so are the results, without rounding.
table_timing play_table(const pipeline_table& t, const pipeline_costs& costs);

/// Returns, for each stage, the most micro-batches that are at a time between the start of their forward and the end of
/// their backward, weight part included; 1 without backward. find_fault() must have found no fault in `t`.
std::vector<uint32_t> micros_in_flight(const pipeline_table& t);

}  // namespace troupe::plan
