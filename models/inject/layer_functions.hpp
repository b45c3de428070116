// Single layers of a host program, computed by Troupe's kernels: layer norm, embedding and mean cross-entropy, as
// autograd functions of tensors. A backward with create_graph throws c10::Error. Owns no weights and no modules;
// own_layers.hpp puts these functions in the place of layers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace torch::nn {
class Module;
}

namespace troupe::models {

/// Computes `norm`, a LayerNorm of torch over the last dimension, with Troupe's kernels: sums in fp32 (fp64 for fp64)
/// in one fixed order, so that a row's result does not depend on other rows. Autograd can differentiate the result.
at::Tensor own_layer_norm(const torch::nn::Module& norm, const at::Tensor& x);

/// Returns the rows `ids` (..) of `weight` (V, C), shape (.., C). The gradient of a row is the sum over its positions
/// in their order, in fp32 (fp64 for fp64), rounded once. Throws if an id is not from 0 to V - 1.
at::Tensor own_embedding(const at::Tensor& weight, const at::Tensor& ids);

/// Returns the mean cross-entropy of `scores` (N, V) against `targets` (N), int64. Backward keeps the scores and one
/// number per row. Torch computes the loss if a target is `ignore_index`, and under autocast.
at::Tensor own_cross_entropy(const at::Tensor& scores, const at::Tensor& targets, int64_t ignore_index);

/// True if torch's autocast is on for the device of `x`.
bool under_autocast(const at::Tensor& x);

}  // namespace troupe::models
