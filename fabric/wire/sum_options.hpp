// Converts the request of a reduction to the options of the kernels that sum its inputs.
#pragma once

#include "fabric/communicator.hpp"
#include "kernels/sums/reduce.hpp"

namespace troupe::fabric {

inline kernels::reduce_options options_of(const request& r) {
  return {.input = r.input_type,
          .communication = r.communication,
          .output = r.output_type,
          .input_scale = r.input_scale,
          .accumulate = r.accumulate};
}

}  // namespace troupe::fabric
