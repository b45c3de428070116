// The numbers of one step that every optimizer reads.
#pragma once

#include <cstdint>

namespace troupe::kernels {

struct optimizer_step {  ///< numbers that change from step to step
  uint64_t step = 1;     ///< number of this update, from 1; skipped updates do not count
  double lr = 1e-3;
  double gradient_scale = 1;  ///< factor on the gradient: 1 / (loss scale * ranks * accumulation) * clip; rounded
};

}  // namespace troupe::kernels
