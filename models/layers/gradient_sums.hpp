// The gradients of a linear layer's parameters where a backward goes tile by tile (models/table/row_tiles.hpp). Owns
// where they are formed; row_panels.hpp adds them up.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "models/segment/projection.hpp"
#include "models/segment/row_panels.hpp"
#include "models/segment/weight.hpp"

namespace troupe::models {

/// A gradient that is formed while its backward runs: in its place, or, where only the input part runs, in memory of
/// its own until the weight part.
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

/// Those of a layer's weight and bias, with the bits of `projection::write_gradients`. Slot and layer outlive it.
class gradient_sums {
 public:
  /// Of `rows` rows in all.
  gradient_sums(const sink_slot& slot, const projection& p, int64_t rows);
  /// Of the next rows and of what came out of them: whole panels, but for the last ones.
  void add(const at::Tensor& rows, const at::Tensor& g);
  /// Behind the last rows.
  void finish();

 private:
  const projection& p_;
  std::optional<gradient_in_parts> dw_, db_;
  std::optional<row_sums> weight_;
  std::optional<column_sums> bias_;
};

}  // namespace troupe::models
