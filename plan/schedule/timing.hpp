// How long a table of a pipeline takes, and what it keeps. Owns the clock of actions on ranks; what a stage costs is
// measured or modelled elsewhere (choose/) and passed in.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/action.hpp"

namespace troupe::plan {

/// What one micro-batch costs on a stage.
struct stage_cost {
  double forward_s = 0, backward_input_s = 0, backward_weight_s = 0;  ///< a whole backward: the last two
  uint64_t activation_bytes = 0;                                      ///< kept from the start of F to the end of B or I
  uint64_t weight_part_bytes = 0;  ///< kept from the end of I to the end of W
};

struct pipeline_costs {  ///< of all stages, and of what goes between them
  std::vector<stage_cost> stages;
  double transfer_s = 0;  ///< of an output or gradient to another rank; no rank computes less for it
};

struct action_time {  ///< seconds since the step began
  double start_s = 0, end_s = 0;
};

/// One rank's step.
struct rank_timing {
  std::vector<action_time> actions;  ///< [position]; of transfers and the like both are the rank's time then
  double busy_s = 0;
  double idle_s = 0;  ///< between the start of its first action and the end of its last
  double end_s = 0;
  uint64_t peak_bytes = 0;  ///< activations and what weight parts need, at most at once
};

struct table_timing {  ///< all ranks' step
  std::vector<rank_timing> ranks;
  double total_s = 0;  ///< to the end of the last action
};

/// Plays a proved table: each rank does its actions in order, each once the rank is free and what it takes has come. An
/// overlap runs as its two parts, forward first, with nothing gained. A table that does not train keeps nothing beyond
/// the end of F. Whole-number costs give exact whole numbers.
table_timing play_table(const pipeline_table& t, const pipeline_costs& costs);

/// [stage] The most micro-batches between their F and the end of their backward, weight part included; without backward
/// 1. Of a proved table.
std::vector<uint32_t> micros_in_flight(const pipeline_table& t);

}  // namespace troupe::plan
