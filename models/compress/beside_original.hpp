// Runs one segment of two models side by side: the original model, and the current model, in which the weights before
// this segment are rounded already. Collects sums over the inputs of the current model's layers, and how far the
// outputs of the two models differ. Owns which forward passes that requires; leaves the weights to the caller.
#pragma once

#include <cstdint>
#include <vector>

#include "core/error.hpp"
#include "models/compress/input_statistics.hpp"
#include "models/compress/unit_walk.hpp"

namespace troupe::models {

/// Runs all windows of text through segment number `step` (or through the head) in both models, and returns sums over
/// the current model's inputs of `weights`: their products, and their drift from the original's inputs. Stores the
/// original model's output for the next step and for watch_end(). The loaded unit must still have the original weights.
core::result<std::vector<input_sums>> watch_inputs(unit_walk& walk, uint64_t step, std::vector<uint32_t> weights);

/// Sums over the input of the last layer of a segment, and over the difference between the segment's outputs in the
/// original and in the current model.
struct end_sums {
  std::vector<input_sums> inputs;
  /// Shape (width, in): the sum of (y - z) xᵀ over all tokens, where y and z are what the segment adds to the residual
  /// path in the original and in the current model, and x is the last layer's input in the current model.
  at::Tensor missing;
};
/// Returns the sums for the last layer of segment `step`, whose weight is `weight`. Must be called after
/// watch_inputs(), when the segment's earlier layers are rounded. Only what the segment adds is compared, not its whole
/// output: compensating errors of the hidden states that enter it would be dominated, in large models, by a few tokens
/// with very large states.
core::result<end_sums> watch_end(unit_walk& walk, uint64_t step, uint32_t weight);

}  // namespace troupe::models
