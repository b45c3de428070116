// Changes a layer's weights to compensate errors of its inputs. The layers before it have been rounded, so its inputs
// differ from those in the original model; its weights are changed, by least squares, such that its outputs are close
// to the original's again. Rounding them is the next step. Plain functions on one matrix. Sources: Li et al. 2025
// (arXiv:2504.02692) and Arai, Ichikawa 2025 (arXiv:2504.09629), whose closed form this is.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/error.hpp"

namespace troupe::models {

/// Damping added to the diagonal of the inputs' products, as a fraction of the mean of that diagonal: the larger, the
/// closer the weights stay to their old values. Smaller values overfit to the few windows of text.
inline constexpr double refit_damping = 1;

/// Returns w + missing · (products + d I)⁻¹, (out, in) in fp32, where d is `damping` times the mean of the diagonal of
/// `products`. `products` (in, in) is the sum of x xᵀ, and `missing` (out, in) is the sum of (y - w x) xᵀ for the
/// required outputs y. Errors (numeric): products that are not positive definite.
core::result<at::Tensor> refitted(const at::Tensor& w, const at::Tensor& missing, const at::Tensor& products,
                                  double damping = refit_damping);

}  // namespace troupe::models
