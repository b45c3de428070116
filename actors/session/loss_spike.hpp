// What a session tells of a step whose loss has risen too far (`on_spike`), and where the run went back to. Plain
// values.
#pragma once

#include <cstdint>
#include <filesystem>

namespace troupe::actors {

struct loss_spike {   ///< and where the run went back to, if it did
  uint64_t step = 0;  ///< from 1
  double loss = 0;
  double usual = 0;                ///< the median of the losses before it; 0: too few to compare with
  uint64_t back_to = 0;            ///< steps done from which the run continues
  bool from_memory = false;        ///< of a save in memory; else of a checkpoint
  std::filesystem::path folder{};  ///< of that checkpoint
  uint64_t first = 0, last = 0;    ///< steps whose samples are left out from now on
  uint64_t samples = 0;            ///< so many
  uint64_t times = 0;              ///< that this run has gone back, with this one
};

}  // namespace troupe::actors
