// Sums of the gradients of a linear layer's parameters in a backward that processes its rows tile by tile
// (models/table/row_tiles.hpp). Owns the memory of these sums; row_panels.hpp adds them up.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "models/segment/projection.hpp"
#include "models/segment/row_panels.hpp"
#include "models/segment/weight.hpp"

namespace troupe::models {

/// Memory for a weight's gradient that is summed over several calls: the memory that the gradient sink provides, or, in
/// the input part of a split backward, memory of its own, which is written to the sink in the weight part.
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

/// Sums the gradients of a layer's weight, bias and adapter over rows that the caller passes in several calls, with the
/// bits of `projection::write_gradients`. `slot` and `p` must outlive this object.
class gradient_sums {
 public:
  /// Begins the sums for the trained parameters of `p`. `rows`: number of rows that all calls of add() together will
  /// pass.
  gradient_sums(const sink_slot& slot, const projection& p, int64_t rows);
  /// Adds the contribution of the next input rows and of `g`, the gradient of their outputs. Each call but the last
  /// must pass whole panels of rows (panel_rows).
  void add(const at::Tensor& rows, const at::Tensor& g);
  /// Writes the gradients to the sink; must be called after all rows were added.
  void finish();

 private:
  const projection& p_;
  int64_t added_ = 0;  ///< number of rows that were added
  std::optional<gradient_in_parts> dw_, db_, of_a_, of_b_;
  std::optional<row_sums> weight_, a_, b_;
  std::optional<column_sums> bias_;
};

}  // namespace troupe::models
