// The norm before linear layers: layer norm and RMS norm over rows, without history. Backward of the layers after it
// calls `forward` again instead of keeping the rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "models/segment/weight.hpp"

namespace troupe::models {

/// A norm's result for rows (N, C), with mean and rstd of each row in the type that sums are formed in.
struct normed_rows {
  at::Tensor y, mean, rstd;  ///< results of a norm, and mean and reciprocal deviation of each row; RMS norm has no mean
};

/// A norm over the last dimension: layer norm if it has a bias, else RMS norm, x / rms(x) * w; in fp32, rounded once.
/// Source: Ba, Kiros, Hinton 2016 (arXiv:1607.06450); Zhang, Sennrich 2019 (arXiv:1910.07467).
struct row_norm {
  weight w;
  std::optional<weight> bias;
  double epsilon = 1e-5;

  /// Computes the norm of `x` (N, C), which is contiguous. Equal rows give equal bits.
  [[nodiscard]] normed_rows forward(const at::Tensor& x) const;
  /// Returns the gradient of x from that of y; adds `past`, the gradient of x on the path around the norm (undefined:
  /// none), before rounding. Writes the gradients of weight and bias, which are formed in this call even if they are
  /// written later. The result may reuse the memory of `dy`.
  [[nodiscard]] at::Tensor backward(const sink_slot& slot, const at::Tensor& x, const normed_rows& of_x, at::Tensor dy,
                                    const at::Tensor& past) const;
};

}  // namespace troupe::models
