// Computes products and sums over the rows of a micro-batch in panels of a fixed number of rows
// (models/table/row_tiles.hpp), so that a caller which passes the rows tile by tile, in whole panels, gets the same
// bits as a caller which passes all rows in one call. On a device without a fixed panel size (operations.hpp) the rows
// of one call are one panel, and the sums of several calls are added in fp32. Owns the order; products.hpp multiplies.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "models/segment/widened_products.hpp"

namespace troupe::models {

/// How a sum over several panels of rows is formed. Panels are added in order, in fp32 (fp64 for fp64), and the sum is
/// rounded once. For 16-bit types, `wide` converts the factors of each panel to fp32 on every processor, because a
/// library's own product would round each panel; `rounded` uses the library's product where the processor has
/// instructions for it, which is four times as fast and has the error of a sum over micro-batches. `none`: all rows are
/// multiplied at once.
enum class panel_sums : uint8_t { none, wide, rounded };

/// Computes out (N, n) = rows (N, k) * b (k, n), plus `bias` if it is defined, one panel of rows at a time; `out` is
/// contiguous.
void panel_product_out(at::Tensor& out, const at::Tensor& rows, const at::Tensor& b, const at::Tensor& bias = {});

/// Computes left (N, m) transposed times right (N, n), a product that sums over all N rows, from rows that the caller
/// passes in several calls. The rows of each panel form one product, and these products are added in order; if N is at
/// most one panel, the result has the bits of a plain product.
class row_sums {
 public:
  /// Begins a sum that finish() writes to `out` (m, n), contiguous. `rows`: the number N of rows that all calls of
  /// add() together will pass.
  row_sums(at::Tensor out, int64_t rows, panel_sums how);
  /// Adds the product of the next rows of both factors. Each call but the last must pass whole panels.
  void add(const at::Tensor& left, const at::Tensor& right);
  /// Writes the sum to `out`; must be called after all rows were added.
  void finish();

 private:
  /// Chooses how the products of several panels are added, and allocates the memory for that. `first_rows`: number of
  /// rows in the first call of add(), or of all rows if the device has a fixed panel size.
  void begin(int64_t first_rows);

  at::Tensor out_;
  int64_t rows_, added_ = 0;
  panel_sums how_;
  // Running sum of the panels' products for 16-bit types; at most one of `wide_`, `rounded_` and `sums_` is used.
  std::optional<widened_sums> wide_;
  at::Tensor rounded_;  // running sum (m, n) in fp32 of products that the library rounds
  at::Tensor sums_;     // running sum (m, n) in fp32, on a device whose products add to it directly
};

/// Sets out (C) to the sum of each column of g (N, C), whose elements are contiguous.
void sum_columns(const at::Tensor& g, const at::Tensor& out);

/// Sums each column over rows that the caller passes in several calls: computes the sums of each panel, adds them in
/// order in fp32 (fp64 for fp64), and rounds once.
class column_sums {
 public:
  /// Begins sums that finish() writes to `out` (C). `rows`: number of rows that all calls of add() together will pass.
  column_sums(at::Tensor out, int64_t rows);
  /// Adds the next rows. Each call but the last must pass whole panels.
  void add(const at::Tensor& g);
  void finish();

 private:
  void begin(int64_t first_rows);

  at::Tensor out_;
  int64_t rows_, added_ = 0;
  at::Tensor sums_;  // running sums of the columns, if there are several panels
};

}  // namespace troupe::models
