// The numbers of one step that every optimizer reads.
#pragma once

#include <cstdint>

namespace troupe::kernels {

struct optimizer_step {  ///< numbers that change from step to step
  uint64_t step = 1;     ///< counts updates that were not skipped, from 1
  double lr = 1e-3;
  double gradient_scale = 1;  ///< one factor on the gradient: 1 / (loss scale * ranks * accumulation) * clip; rounded
                              ///< once to the type of the masters
};

}  // namespace troupe::kernels
