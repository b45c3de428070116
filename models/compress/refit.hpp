// Weights that make up for what their inputs have lost: the layers before were rounded, so a layer is given other
// inputs than in the model as it was, and its weights are moved until their outputs are again those of then, as far as
// the inputs tell. Then they are rounded. Plain functions on one matrix. Sources: Li et al. 2025 (arXiv:2504.02692) and
// Arai, Ichikawa 2025 (arXiv:2504.09629), whose closed form this is.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/error.hpp"

namespace troupe::models {

/// Of the mean of the diagonal of the inputs' products, added to it: how much the weights stay where they are. With less,
/// few windows of text are learned by heart.
inline constexpr double refit_damping = 1;

/// w + missing (products + damping)⁻¹, (out, in) in fp32: of `products` (in, in), the sum of x xᵀ, and `missing` (out,
/// in), the sum of (y - w x) xᵀ for the outputs y that are wanted. Refused (numeric): products that are not positive.
core::result<at::Tensor> refitted(const at::Tensor& w, const at::Tensor& missing, const at::Tensor& products,
                                  double damping = refit_damping);

}  // namespace troupe::models
