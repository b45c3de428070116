// Matrix products of 16-bit types through fp32's, for processors without instructions for the former. Owns the tiles
// and their scratch; products.hpp decides when they are used and which library multiplies the tiles.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace troupe::models {

/// A tile of the result, and how much of both factors is widened at a time: enough work for each element that is
/// widened, few enough bytes to stay in the caches. Part of the bits: sums over `widened_depth` factors are formed by
/// the library, and added up in order.
inline constexpr int64_t widened_rows = 512, widened_cols = 1024, widened_depth = 1024;

/// out (m, n), contiguous and distinct, = a (m, k) * b (k, n), plus `bias` (n) where it is defined; all bf16 or all
/// fp16. Either factor may be a transposed view. A product of two such numbers is exact in fp32; sums are formed in
/// fp32, from the bias on, and rounded once. Takes at most 8 MiB and a bias in fp32 from ATen while it runs; a factor
/// whose elements lie side by side neither in rows nor in columns is copied as well.
void widened_product_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias = {});

/// The same product without bias, of factors that come in parts of their common dimension: with the same bits, if all
/// parts but the last are multiples of `widened_depth`. Keeps m x n sums in fp32, in tiles.
class widened_sums {
 public:
  /// Of a product (m, n) where `like` lies.
  widened_sums(int64_t m, int64_t n, const at::Tensor& like);
  /// Adds a (m, k) * b (k, n).
  void add(const at::Tensor& a, const at::Tensor& b);
  /// Rounds the sums into out (m, n), contiguous.
  void round_to(at::Tensor& out) const;

 private:
  [[nodiscard]] at::Tensor tile_at(int64_t row, int64_t col) const;

  int64_t m_, n_;
  bool empty_ = true;
  at::Tensor sums_;  // tiles, one column of them behind the other
};

}  // namespace troupe::models
