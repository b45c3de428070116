// The gradients of a linear layer's parameters in a backward that runs tile by tile (models/table/row_tiles.hpp). Owns
// the memory in which they are formed; row_panels.hpp adds them up.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "models/segment/projection.hpp"
#include "models/segment/row_panels.hpp"
#include "models/segment/weight.hpp"

namespace troupe::models {

/// Provides the memory for a gradient of a weight that is summed while backward runs: the memory of the gradient's
/// target, or, if only the input part of backward runs, memory of its own until the weight part.
class gradient_in_parts {
 public:
  gradient_in_parts(const sink_slot& slot, const weight& w);
  [[nodiscard]] at::Tensor& out() { return out_; }
  void commit();

 private:
  const sink_slot& slot_;
  const weight& w_;
  std::optional<gradient_writer> writer_;
  at::Tensor out_;
};

/// Sums the gradients of a layer's weight and bias over rows that the caller passes in several calls, with the bits of
/// `projection::write_gradients`. Slot and layer must outlive this object.
class gradient_sums {
 public:
  /// Begins the gradients of the weights of `p`. `rows`: number of rows that all calls of add() together pass.
  gradient_sums(const sink_slot& slot, const projection& p, int64_t rows);
  /// Adds the next rows and the gradient of their outputs: whole panels, except for the last rows.
  void add(const at::Tensor& rows, const at::Tensor& g);
  /// Writes the gradients of the weights; call after the last rows were added.
  void finish();

 private:
  const projection& p_;
  std::optional<gradient_in_parts> dw_, db_;
  std::optional<row_sums> weight_;
  std::optional<column_sums> bias_;
};

}  // namespace troupe::models
