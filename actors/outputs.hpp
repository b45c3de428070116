// What the ranks of a run put out, as a host wants it. Owns joining what ranks of tensor and sequence groups have in
// parts; who computes it is the stages, who asks for it the session.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/rank_report.hpp"

namespace troupe::actors {

struct data_outputs {  ///< of the ranks that take the same samples
  uint32_t data = 0;   ///< their position
  std::vector<model_output> micros;
};

/// Outputs of a run by ascending position, each once and whole. They are taken out of the reports.
std::vector<data_outputs> take_outputs(rank_reports& ranks);

}  // namespace troupe::actors
