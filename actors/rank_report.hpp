// The result of one rank's run of a plan as plain values, the only data about the run that other processes receive.
// Owns the copying of these values out of step_context, which ends with the run.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/step_context.hpp"
#include "telemetry/spans.hpp"

namespace troupe::actors {

/// Data that one rank's run of a plan produced: verdict, losses, times of instructions, and outputs of the model.
struct rank_report {
  uint32_t rank = 0;
  verdict decided;              ///< result of the vote, in plans that train or evaluate; equal on all ranks
  std::vector<double> losses;   ///< losses in plans that evaluate, by micro-batch and data position; equal on all ranks
  telemetry::rank_spans spans;  ///< start and end of the instructions of any plan
  std::vector<model_output> outputs;  ///< outputs by micro-batch, if the order requests them and in generation
};

using rank_reports = std::vector<rank_report>;  ///< reports of a process's ranks or of all ranks, by rank

/// Returns the report of a run that has ended well. Moves the outputs out of the context.
rank_report report_of(step_context& run);

/// Returns the times of a run's instructions, as plain numbers.
telemetry::rank_spans spans_of(step_context& run);

}  // namespace troupe::actors
