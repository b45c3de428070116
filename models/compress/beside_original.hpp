// One segment of two models at once, the one as it was and the one whose weights are rounded so far: what the layers of
// the latter take and what their outputs lack. Owns which forwards that takes; weights are the caller's.
#pragma once

#include <cstdint>
#include <vector>

#include "core/error.hpp"
#include "models/compress/input_statistics.hpp"
#include "models/compress/unit_walk.hpp"

namespace troupe::models {

/// All windows through `step`, the head too, with both models' inputs: products and drift of what `weights` take. What
/// comes out of the original is kept for the next step and for watch_end(). The unit's weights are the original's.
core::result<std::vector<input_sums>> watch_inputs(unit_walk& walk, uint64_t step, std::vector<uint32_t> weights);

/// The input of the layer that ends a segment.
struct end_sums {
  std::vector<input_sums> inputs;
  at::Tensor missing;  ///< (width, in): the sum of (y - z) xᵀ, of what the segment added in the original and adds now
};
/// Behind watch_inputs(), once the layers before are rounded. What the hidden states that came in had lost is not made
/// up for: in large models a few tokens, of very large states, would decide.
core::result<end_sums> watch_end(unit_walk& walk, uint64_t step, uint32_t weight);

}  // namespace troupe::models
