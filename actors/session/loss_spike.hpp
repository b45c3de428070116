// Report of a step whose loss has risen too far (`on_spike`), and of the step that the run went back to. Plain values.
#pragma once

#include <cstdint>
#include <filesystem>

namespace troupe::actors {

struct loss_spike {   ///< a step whose loss rose too far, and the step that the run went back to, if it did
  uint64_t step = 0;  ///< number, from 1, of the step whose loss rose too far
  double loss = 0;
  double usual = 0;                ///< median of the losses of the steps before this one; 0: too few to compare with
  uint64_t back_to = 0;            ///< number of steps done in the earlier state from which the run continues
  bool from_memory = false;        ///< true: the run went back to a save in memory; false: to a checkpoint
  std::filesystem::path folder{};  ///< folder of the checkpoint that the run went back to
  uint64_t first = 0, last = 0;    ///< first and last step whose samples are left out from now on
  uint64_t samples = 0;            ///< number of samples that are left out
  uint64_t times = 0;              ///< number of times that this run has gone back, this one included
};

}  // namespace troupe::actors
