// A linear layer's parameters and its arithmetic: the product, its input's gradient, and the parameters' gradients,
// which are written directly to their buckets.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "core/layer_table.hpp"
#include "models/segment/row_panels.hpp"
#include "models/segment/segment.hpp"
#include "models/segment/weight.hpp"

namespace troupe::models {

/// Returns a tensor (.., C) viewed as rows (N, C).
at::Tensor as_rows(const at::Tensor& x);

/// Returns rows (N, C) viewed in the shape of `like` (.., C').
at::Tensor like_rows_of(const at::Tensor& rows, const at::Tensor& like);

using core::weight_layout;

/// A linear layer of rows (N, in) -> (N, out): its weight and bias, and how its products are computed.
struct projection {
  weight w;
  std::optional<weight> bias;
  weight_layout layout = weight_layout::in_out;
  bool adds_bias = true;      ///< false: another rank adds the bias, and its gradient on this rank is zero
  /// True: the product's rows become the segment's output, which may be computed in pieces of rows (row_work.hpp).
  bool ends_segment = false;
  /// How sums over rows are formed, if rows are multiplied panel by panel (row_panels.hpp).
  panel_sums panels = panel_sums::none;
  /// Rounding of a row before it is multiplied and before the weight's gradient is formed; the row's own gradient is
  /// not changed by it.
  std::optional<input_rounding> input = std::nullopt;
  input_watch* watch = nullptr;  ///< called with the rows of each forward; null: not called

  /// Returns rows as the product reads them: quantised, if the layer's input is.
  [[nodiscard]] at::Tensor taken(const at::Tensor& rows) const;

  [[nodiscard]] int64_t outputs() const { return w.tensor.size(layout == weight_layout::in_out ? 1 : 0); }
  [[nodiscard]] at::Tensor forward(const at::Tensor& rows) const;
  /// Allocates the output of the layer's forward for `rows`.
  [[nodiscard]] at::Tensor room_for(const at::Tensor& rows) const;
  /// Returns the gradient of the input rows from that of the output (N, out).
  [[nodiscard]] at::Tensor input_gradient(const at::Tensor& g) const;
  /// Compute forward and input_gradient into existing memory, (N, out) and (N, in), contiguous.
  void forward_out(at::Tensor& out, const at::Tensor& rows) const;
  void input_gradient_out(at::Tensor& out, const at::Tensor& g) const;
  /// Writes the gradients of weight and bias, or keeps the two tensors for the weight part, which writes them.
  void write_gradients(const sink_slot& slot, const at::Tensor& rows, const at::Tensor& g) const;
};

}  // namespace troupe::models
