#include "kernels/optimizer/orthogonalise.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "core/math.hpp"
#include "kernels/optimizer/newton_schulz.hpp"
#include "kernels/products/matrix_product.hpp"
#include "kernels/sums/norm.hpp"

namespace troupe::kernels {
namespace {

template <class T>
double frobenius_norm(std::span<const T> matrix) {
  constexpr auto type = std::is_same_v<T, double> ? core::dtype::f64 : core::dtype::f32;
  double sum = 0;
  for (uint64_t i = 0; i < matrix.size(); i += core::partition_grain)
    sum += block_square_sum(reinterpret_cast<const std::byte*>(matrix.data() + i), type,
                            std::min(core::partition_grain, matrix.size() - i));
  return std::sqrt(sum);
}

/// Sets x[i] = scale * x[i] + y[i] for all elements.
template <class T>
void scale_and_add(std::span<T> x, T scale, const T* y) {
  for (uint64_t i = 0; i < x.size(); ++i) x[i] = scale * x[i] + y[i];
}

template <class T>
void newton_schulz_steps(std::span<T> matrix, uint64_t rows, uint64_t cols, uint32_t steps, std::span<T> scratch) {
  using namespace newton_schulz;
  assert(matrix.size() == rows * cols && scratch.size() >= orthogonalise_scratch(rows, cols));
  const bool tall = rows > cols;
  const uint64_t small = std::min(rows, cols);
  const auto x = row_major(matrix.data(), rows, cols);
  const std::span<T> gram = scratch.first(small * small);
  const std::span<T> square = scratch.subspan(gram.size(), gram.size());
  T* const product = scratch.data() + 2 * gram.size();
  const std::span<T> packing = scratch.subspan(2 * gram.size() + matrix.size());
  const auto factor = static_cast<T>(1 / std::max(frobenius_norm<T>(matrix), least_norm));
  for (auto& e : matrix) e *= factor;
  for (uint32_t step = 0; step < steps; ++step) {
    const auto a = row_major(gram.data(), small, small);
    matrix_product(tall ? x.transposed() : x, tall ? x : x.transposed(), gram.data(), packing,
                   product_shape::symmetric);
    matrix_product(a, a, square.data(), packing, product_shape::symmetric);
    for (auto& e : square) e *= static_cast<T>(coefficient_c);
    scale_and_add(gram, static_cast<T>(coefficient_b), square.data());
    tall ? matrix_product(x, a, product, packing) : matrix_product(a, x, product, packing);
    scale_and_add(matrix, static_cast<T>(coefficient_a), product);
  }
  if (!tall) return;
  const auto aspect = static_cast<T>(std::sqrt(static_cast<double>(rows) / static_cast<double>(cols)));
  for (auto& e : matrix) e *= aspect;
}

}  // namespace

uint64_t orthogonalise_scratch(uint64_t rows, uint64_t cols) {
  const uint64_t small = std::min(rows, cols);
  const uint64_t large = std::max(rows, cols);
  const uint64_t packing = std::max({product_scratch(small, large, small), product_scratch(small, small, large),
                                     product_scratch(large, small, small), product_scratch(small, small, small)});
  return 2 * small * small + rows * cols + packing;
}

void orthogonalise_unchecked(std::span<float> matrix, uint64_t rows, uint64_t cols, uint32_t steps,
                             std::span<float> scratch) {
  newton_schulz_steps(matrix, rows, cols, steps, scratch);
}

void orthogonalise_unchecked(std::span<double> matrix, uint64_t rows, uint64_t cols, uint32_t steps,
                             std::span<double> scratch) {
  newton_schulz_steps(matrix, rows, cols, steps, scratch);
}

}  // namespace troupe::kernels
