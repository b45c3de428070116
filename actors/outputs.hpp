// Joins the outputs of the ranks of a run for a host: ranks of tensor and sequence groups have parts of them. The
// stages compute outputs, the session requests them.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/rank_report.hpp"

namespace troupe::actors {

struct data_outputs {  ///< outputs of the ranks that compute the same samples
  uint32_t data = 0;   ///< position of these ranks among the data ranks
  std::vector<model_output> micros;
};

/// Moves the outputs of a run out of the reports and returns them by ascending position, each once and whole.
std::vector<data_outputs> take_outputs(rank_reports& ranks);

}  // namespace troupe::actors
