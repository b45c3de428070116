// Runs one segment of two models together, the original model and the one whose weights are rounded so far: collects
// the inputs of the layers of the latter, and the difference of its outputs. Owns which forwards that requires; leaves
// the weights to the caller.
#pragma once

#include <cstdint>
#include <vector>

#include "core/error.hpp"
#include "models/compress/input_statistics.hpp"
#include "models/compress/unit_walk.hpp"

namespace troupe::models {

/// Runs all windows through `step`, which may be the head, with both models' inputs, and returns the products and the
/// drift of the inputs of `weights`. Keeps the original's output for the next step and for watch_end(). Requires that
/// the unit has the original weights.
core::result<std::vector<input_sums>> watch_inputs(unit_walk& walk, uint64_t step, std::vector<uint32_t> weights);

/// Statistics of the input of the layer that ends a segment, and the difference of the segment's output from the
/// original's.
struct end_sums {
  std::vector<input_sums> inputs;
  at::Tensor missing;  ///< (width, in): sum of (y - z) xᵀ; y is the segment's contribution in the original, z its
                       ///< contribution now
};
/// Returns the sums of the layer that ends the segment; called after watch_inputs(), when the layers before that layer
/// are rounded. Errors of the hidden states that enter the segment are not compensated: in large models a few tokens,
/// of very large states, would dominate.
core::result<end_sums> watch_end(unit_walk& walk, uint64_t step, uint32_t weight);

}  // namespace troupe::models
