// Matrix products of 16-bit types, computed by converting the factors to fp32 tile by tile, for processors without
// instructions for 16-bit products. Owns the tiles and their temporary memory; products.hpp decides when this is used
// and which library multiplies the tiles.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace troupe::models {

/// Rows and columns of a tile of the result, and depth of the parts of both factors that are converted to fp32 at a
/// time: enough multiplications for each converted element, few enough bytes to stay in the caches. Other sizes would
/// change bits, because the library forms sums over `widened_depth` products, which are then added in order.
inline constexpr int64_t widened_rows = 512, widened_cols = 1024, widened_depth = 1024;

/// Computes out (m, n), contiguous and distinct, = a (m, k) * b (k, n), plus `bias` (n) if it is defined; all bf16 or
/// all fp16. Either factor may be a transposed view. A product of two such numbers is exact in fp32; sums are formed in
/// fp32, from the bias on, and rounded once. Allocates at most 8 MiB and a bias in fp32 from ATen while it runs; a
/// factor whose elements are contiguous neither in rows nor in columns is copied as well.
void widened_product_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias = {});

/// Computes a product without bias from factors that the caller passes in parts along their common dimension. The
/// result has the bits of widened_product_out if all parts but the last are multiples of `widened_depth`. Keeps m x n
/// sums in fp32, in tiles.
class widened_sums {
 public:
  /// Begins a sum of products, all of shape (m, n), on the device of `like`.
  widened_sums(int64_t m, int64_t n, const at::Tensor& like);
  /// Adds the product of a (m, k) and b (k, n).
  void add(const at::Tensor& a, const at::Tensor& b);
  /// Writes the sums, rounded to its type, to `out` (m, n), contiguous.
  void round_to(at::Tensor& out) const;

 private:
  [[nodiscard]] at::Tensor tile_at(int64_t row, int64_t col) const;

  int64_t m_, n_;
  bool empty_ = true;
  at::Tensor sums_;  // running sums in fp32, tile by tile: one column of tiles after another
};

}  // namespace troupe::models
