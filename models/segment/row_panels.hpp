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

/// How a sum over several panels is formed. Panels are added in order, in fp32 (fp64 for fp64), and the sum is rounded
/// once. For 16-bit types that is `wide`: the factors of a panel are widened on every processor, because a library's
/// own product would round each panel. `rounded` uses the library's product, if the processor has instructions for it:
/// four times as fast, and the error is that of a sum over micro-batches.
enum class panel_sums : uint8_t { none, wide, rounded };

/// Computes out (N, n), contiguous, = rows (N, k) * b (k, n), plus `bias` if it is defined, a panel at a time.
void panel_product_out(at::Tensor& out, const at::Tensor& rows, const at::Tensor& b, const at::Tensor& bias = {});

/// Computes left (N, m) transposed times right (N, n), a product that sums over all N rows, from rows that the caller
/// passes in several calls. The rows of each panel form one product, and these products are added in order; if N is at
/// most one panel, the result has the bits of a plain product.
class row_sums {
 public:
  /// Begins a sum into `out` (m, n), contiguous. `rows`: number N of rows that all calls of add() together pass.
  row_sums(at::Tensor out, int64_t rows, panel_sums how);
  /// Adds the products of the next rows, which are whole panels except at the end.
  void add(const at::Tensor& left, const at::Tensor& right);
  /// Sets `out` to its value; called after the last rows.
  void finish();

 private:
  /// Chooses how the products of several panels are added, and allocates the memory for that. `first_rows`: number of
  /// rows in the first call of add(), or of all rows if the device has a fixed panel size.
  void begin(int64_t first_rows);

  at::Tensor out_;
  int64_t rows_, added_ = 0;
  panel_sums how_;
  // Running sum of the panels' products for 16-bit types; at most one of the three members is used.
  std::optional<widened_sums> wide_;
  at::Tensor rounded_;  // rounded result (m, n), in fp32
  at::Tensor sums_;     // sums (m, n) in fp32, on a device whose products add to them
};

/// Sets out (C) = the sums of the columns of g (N, C), whose elements are contiguous.
void sum_columns(const at::Tensor& g, const at::Tensor& out);

/// Sums each column over rows that the caller passes in several calls: computes the sums of each panel, adds them in
/// order in fp32 (fp64 for fp64), and rounds once.
class column_sums {
 public:
  /// Begins sums into `out` (C). `rows`: number of rows that all calls of add() together pass.
  column_sums(at::Tensor out, int64_t rows);
  /// Adds the next rows, which are whole panels except at the end.
  void add(const at::Tensor& g);
  void finish();

 private:
  void begin(int64_t first_rows);

  at::Tensor out_;
  int64_t rows_, added_ = 0;
  at::Tensor sums_;  // sums of several panels
};

}  // namespace troupe::models
