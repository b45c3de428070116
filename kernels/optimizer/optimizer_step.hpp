// Numbers of one optimizer step that every optimizer reads.
#pragma once

#include <cstdint>

namespace troupe::kernels {

struct optimizer_step {  ///< step number, learning rate and gradient factor of one optimizer step
  uint64_t step = 1;     ///< number of this update, counted from 1; skipped updates are not counted
  double lr = 1e-3;
  double gradient_scale = 1;  ///< factor on the gradient: 1 / (loss scale * ranks * accumulation) * clip; rounded
};

}  // namespace troupe::kernels
