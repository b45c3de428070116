// Joins the model outputs of a run's ranks, because ranks of tensor and sequence groups have only parts of them.
// Pipeline stages compute outputs; the session requests them for the host program.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/rank_report.hpp"

namespace troupe::actors {

struct data_outputs {  ///< outputs of all ranks that compute the same samples, joined
  uint32_t data = 0;   ///< position among the data ranks of the ranks that computed the outputs
  std::vector<model_output> micros;
};

/// Moves the logarithms of probabilities (kept_outputs::log_probabilities) of a run out of the reports and returns them
/// whole, [row, position], once for each data position, by ascending position. Ranks that share a vocabulary have equal
/// ones.
std::vector<data_outputs> take_log_probabilities(rank_reports& ranks);

/// Moves the outputs of a run out of the reports and returns them whole, once for each data position, by ascending
/// position.
std::vector<data_outputs> take_outputs(rank_reports& ranks);

}  // namespace troupe::actors
