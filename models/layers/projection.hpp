// A linear layer's parameters and what each way through it takes: the product, its input's gradient, and the gradients
// that go straight to their buckets.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "core/layer_table.hpp"
#include "models/layers/weight.hpp"

namespace troupe::models {

/// (.., C) as (N, C).
at::Tensor as_rows(const at::Tensor& x);

/// Rows (N, C) in the shape of `like` (.., C').
at::Tensor like_rows_of(const at::Tensor& rows, const at::Tensor& like);

using core::weight_layout;

/// Rows (N, in) -> (N, out).
struct projection {
  weight w;
  std::optional<weight> bias;
  weight_layout layout = weight_layout::in_out;

  [[nodiscard]] at::Tensor forward(const at::Tensor& rows) const;
  /// Of the rows that went in, from the gradient (N, out).
  [[nodiscard]] at::Tensor input_gradient(const at::Tensor& g) const;
  /// Of weight and bias.
  void write_gradients(const sink_slot& slot, const at::Tensor& rows, const at::Tensor& g) const;
};

}  // namespace troupe::models
