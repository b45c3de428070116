// A linear layer's parameters and its arithmetic: the product, its input's gradient, and the parameters' gradients,
// which go straight to their buckets.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "core/layer_table.hpp"
#include "models/segment/row_panels.hpp"
#include "models/segment/segment.hpp"
#include "models/segment/weight.hpp"

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
  bool adds_bias = true;      ///< false: another rank does, and the bias's gradient here is zero
  bool ends_segment = false;  ///< its rows become the segment's output, which may come in pieces (row_work.hpp)
  /// Whether rows are multiplied panel by panel, and how sums over them are formed (row_panels.hpp).
  panel_sums panels = panel_sums::none;
  /// What it multiplies with instead of a row, and forms the weight's gradient with; the row's own goes straight
  /// through.
  std::optional<input_rounding> input = std::nullopt;
  input_watch* watch = nullptr;  ///< is told of the rows of forward

  /// Rows as it multiplies with them.
  [[nodiscard]] at::Tensor taken(const at::Tensor& rows) const;

  [[nodiscard]] int64_t outputs() const { return w.tensor.size(layout == weight_layout::in_out ? 1 : 0); }
  [[nodiscard]] at::Tensor forward(const at::Tensor& rows) const;
  /// The memory for that.
  [[nodiscard]] at::Tensor room_for(const at::Tensor& rows) const;
  /// The gradient of the input rows from that of the output (N, out).
  [[nodiscard]] at::Tensor input_gradient(const at::Tensor& g) const;
  /// The same into memory that is there, (N, out) and (N, in), contiguous.
  void forward_out(at::Tensor& out, const at::Tensor& rows) const;
  void input_gradient_out(at::Tensor& out, const at::Tensor& g) const;
  /// Writes the gradients of weight and bias, or leaves that to the weight part with the two tensors.
  void write_gradients(const sink_slot& slot, const at::Tensor& rows, const at::Tensor& g) const;
};

}  // namespace troupe::models
