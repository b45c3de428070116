// Products over the rows of a micro-batch, panel by panel (models/table/row_tiles.hpp): rows that come in tiles of
// whole panels have the bits of rows that come at once. Owns the order; products.hpp multiplies.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "models/layers/widened_products.hpp"

namespace troupe::models {

/// out (N, n), contiguous, = rows (N, k) * b (k, n), plus `bias` where it is defined, a panel at a time.
void panel_product_out(at::Tensor& out, const at::Tensor& rows, const at::Tensor& b, const at::Tensor& bias = {});

/// A product over all rows, left (N, m) transposed times right (N, n). More rows than a panel's are multiplied panel by
/// panel and added in order, in fp32 (fp64 for fp64), and rounded once: for 16-bit types the panels' factors are
/// widened on every processor, since a library's own product would round each panel.
class row_sums {
 public:
  /// Into `out` (m, n), contiguous, of `rows` rows in all.
  row_sums(at::Tensor out, int64_t rows);
  /// The next rows: whole panels, but for the last ones.
  void add(const at::Tensor& left, const at::Tensor& right);
  /// Behind the last rows: `out` has its value.
  void finish();

 private:
  at::Tensor out_;
  int64_t rows_, added_ = 0;
  std::optional<widened_sums> wide_;  // of 16-bit types, from the first of several panels on
};

}  // namespace troupe::models
