// Layer norm and RMS norm over rows, without autograd history: the layers that read the norm's output are part of the
// same autograd function, whose backward calls `forward` again instead of keeping that output.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "models/segment/weight.hpp"

namespace troupe::models {

/// A norm's output for rows (N, C), and mean and rstd of each row in the type that sums are formed in.
struct normed_rows {
  /// Output of the norm; mean of each row (undefined for RMS norm); reciprocal standard deviation of each row.
  at::Tensor y, mean, rstd;
};

/// Numbers of a norm besides its parameters.
struct norm_numbers {
  double epsilon = 1e-5;
  float shift = 0;  ///< number added to each weight before it multiplies
};

/// Writes `gradient`, in the type that sums are formed in, as the gradient of a norm's `parameter`: now, or in the
/// weight part of a split backward. Writes nothing for a parameter that is not trained.
void write_gradient(const sink_slot& slot, const weight& parameter, const at::Tensor& gradient);

/// A norm over the last dimension: layer norm if it has a bias, else RMS norm, x / rms(x) * (w + shift); in fp32,
/// rounded once. Source: Ba, Kiros, Hinton 2016 (arXiv:1607.06450); Zhang, Sennrich 2019 (arXiv:1910.07467).
struct row_norm {
  weight w;
  std::optional<weight> bias;
  norm_numbers numbers = {};

  /// Computes the norm of `x` (N, C), which is contiguous. Equal rows give equal bits.
  [[nodiscard]] normed_rows forward(const at::Tensor& x) const;
  /// Returns the gradient of x from `dy`, the gradient of the norm's output, and adds to it, before rounding, `past`,
  /// the gradient that reaches x through the residual path (undefined: none). Writes the gradients of weight and bias,
  /// which are computed in this call even if a split backward writes them later. The result may reuse the memory of
  /// `dy`.
  [[nodiscard]] at::Tensor backward(const sink_slot& slot, const at::Tensor& x, const normed_rows& of_x, at::Tensor dy,
                                    const at::Tensor& past) const;
};

}  // namespace troupe::models
