// The norm in front of linear layers: layer norm and RMS norm over rows, without history. Backward of the layers behind
// it calls `forward` again instead of keeping the rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "models/segment/weight.hpp"

namespace troupe::models {

/// A norm's result for rows (N, C), with mean and rstd of each row in the type that sums are formed in.
struct normed_rows {
  at::Tensor y, mean, rstd;  ///< RMS norm has no mean
};

/// Over the last dimension: with a bias layer norm, without one RMS norm, x / rms(x) * w, in fp32, rounded once.
/// Source: Ba, Kiros, Hinton 2016 (arXiv:1607.06450); Zhang, Sennrich 2019 (arXiv:1910.07467).
struct row_norm {
  weight w;
  std::optional<weight> bias;
  double epsilon = 1e-5;

  /// `x` (N, C) is contiguous. The same bits for the same rows.
  [[nodiscard]] normed_rows forward(const at::Tensor& x) const;
  /// The gradient of x from that of y, with what reached x past the norm (undefined: nothing) added before it is
  /// rounded. Writes the gradients of weight and bias, which are formed here even where they
  /// are written later. The result may take the memory of `dy`.
  [[nodiscard]] at::Tensor backward(const sink_slot& slot, const at::Tensor& x, const normed_rows& of_x, at::Tensor dy,
                                    const at::Tensor& past) const;
};

}  // namespace troupe::models
