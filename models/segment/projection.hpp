// A linear layer: its parameters, its adapter, its product, its input's gradient, and its parameters' gradients, which
// are written directly to the memory that the gradient sink provides.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "core/layer_table.hpp"
#include "models/segment/row_panels.hpp"
#include "models/segment/segment.hpp"
#include "models/segment/weight.hpp"

namespace troupe::models {

/// Returns a tensor (.., C) as rows (N, C): a view if its strides allow that, else a copy.
at::Tensor as_rows(const at::Tensor& x);

/// Returns rows (N, C) viewed in the shape of `like` (.., C').
at::Tensor like_rows_of(const at::Tensor& rows, const at::Tensor& like);

using core::weight_layout;

/// The adapter of a linear layer (core::layer_adapter): its matrices A (rank, in) and B (out, rank), and the factor of
/// their product.
struct low_rank {
  weight a, b;
  double scale = 1;
  /// Applies dropout in place to rows (n, in) of which the first is row `first` of the micro-batch; empty: no dropout.
  std::function<void(const at::Tensor& rows, int64_t first)> drop = {};

  [[nodiscard]] bool trains() const { return a.trainable || b.trainable; }
  /// Returns the rows after dropout: a copy, or `rows` itself without dropout.
  [[nodiscard]] at::Tensor dropped(const at::Tensor& rows, int64_t first) const;
};

/// A linear layer that maps rows (N, in) to (N, out): its weight and bias, and how its products are computed. Functions
/// that get some rows of a micro-batch also get the index `first` of the first of them, on which dropout depends.
struct projection {
  weight w;
  std::optional<weight> bias;
  weight_layout layout = weight_layout::in_out;
  bool adds_bias = true;  ///< false: another rank adds the bias, and its gradient on this rank is zero
  /// True: the product's rows are the segment's output, which may be computed in pieces of rows (row_work).
  bool ends_segment = false;
  /// How sums over several panels of rows are formed (row_panels.hpp); none: all rows are multiplied at once.
  panel_sums panels = panel_sums::none;
  /// How input rows are quantised before they are multiplied and before the weight's gradient is computed; their own
  /// gradient ignores the rounding. nullopt: not quantised.
  std::optional<input_rounding> input = std::nullopt;
  input_watch* watch = nullptr;  ///< observer that is called with the input rows of each forward; null: none
  std::optional<low_rank> adapter = std::nullopt;  ///< adapter of the layer; nullopt: none

  /// Returns rows as the product reads them: quantised, if the layer's input is.
  [[nodiscard]] at::Tensor taken(const at::Tensor& rows) const;

  [[nodiscard]] int64_t outputs() const { return w.tensor.size(layout == weight_layout::in_out ? 1 : 0); }
  [[nodiscard]] at::Tensor forward(const at::Tensor& rows) const;
  /// Returns a new tensor for the layer's output for `rows`, with undefined elements.
  [[nodiscard]] at::Tensor room_for(const at::Tensor& rows) const;
  /// Returns the gradient of the input rows (N, in) from `g`, the gradient of the output rows (N, out).
  [[nodiscard]] at::Tensor input_gradient(const at::Tensor& g, int64_t first = 0) const;
  /// Compute forward and input_gradient into existing contiguous tensors, (N, out) and (N, in).
  void forward_out(at::Tensor& out, const at::Tensor& rows, int64_t first = 0) const;
  void input_gradient_out(at::Tensor& out, const at::Tensor& g, int64_t first = 0) const;
  /// Computes and writes the gradients of weight, bias and adapter from the input `rows` and `g`, the gradient of the
  /// output, for all rows of the micro-batch. In the input part of a split backward, keeps tensors instead; the weight
  /// part then computes and writes.
  void write_gradients(const sink_slot& slot, const at::Tensor& rows, const at::Tensor& g) const;

  /// Returns A x (N, rank) for the adapter's input rows x (N, in), after dropout.
  [[nodiscard]] at::Tensor inside_adapter(const at::Tensor& dropped) const;
  /// Returns the gradient of inside_adapter's result (N, rank) from `g`, the gradient of the output rows (N, out).
  [[nodiscard]] at::Tensor adapter_gradient(const at::Tensor& g) const;

  /// Parts of forward_out, input_gradient_out and write_gradients.
  void multiply(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& plus) const;
  void write_own_gradients(const sink_slot& slot, const at::Tensor& rows, const at::Tensor& g) const;
  void write_adapter_gradients(const sink_slot& slot, const at::Tensor& rows, const at::Tensor& g) const;
};

}  // namespace troupe::models
