// What a rank's run of a plan has left, as plain values: all that anybody outside the rank's own process may know of
// it. Owns the copy; the run's context, which it is made of, ends with the run.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/step_context.hpp"
#include "telemetry/spans.hpp"

namespace troupe::actors {

struct rank_report {  ///< of one rank
  uint32_t rank = 0;
  verdict decided;                    ///< of plans that train or evaluate; the same on all ranks
  std::vector<double> losses;         ///< [micro-batch x data position], of plans that evaluate; likewise
  telemetry::rank_spans spans;        ///< of any plan
  std::vector<model_output> outputs;  ///< [micro-batch], where the order keeps them and in generation
};

using rank_reports = std::vector<rank_report>;  ///< of a process's ranks or of all, by rank

/// For a run that has ended well. Takes the outputs out of the context.
rank_report report_of(step_context& run);

/// The times of a run's instructions, as plain numbers.
telemetry::rank_spans spans_of(step_context& run);

}  // namespace troupe::actors
