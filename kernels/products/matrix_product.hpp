// A dense matrix product whose bits are fixed: one order of additions, on every processor and every vector width.
// Computes on the calling thread; layers use LibTorch's product instead, which may choose its order.
#pragma once

#include <cstdint>
#include <span>

namespace troupe::kernels {

/// A view of a matrix with strides counted in elements: element (i, j) is data[i * row_stride + j * col_stride].
template <class T>
struct matrix_view {
  const T* data = nullptr;
  uint64_t rows = 0, cols = 0;
  uint64_t row_stride = 0, col_stride = 1;
  [[nodiscard]] matrix_view transposed() const { return {data, cols, rows, col_stride, row_stride}; }
  [[nodiscard]] T at(uint64_t i, uint64_t j) const { return data[i * row_stride + j * col_stride]; }
};

template <class T>
matrix_view<T> row_major(const T* data, uint64_t rows, uint64_t cols) {
  return {data, rows, cols, cols, 1};
}

/// Number of products that are added up before they are added to the sum of the earlier ones: the order of additions of
/// each element of the result.
inline constexpr uint64_t product_grain = 256;

/// Shape of the result. `symmetric`: the caller knows that out[i][j] equals out[j][i], so only half is computed, with
/// the same bits.
enum class product_shape { general, symmetric };

/// Returns how many elements of scratch memory a product of m x k by k x n requires, for packed parts of both factors:
/// at most 2^19.
uint64_t product_scratch(uint64_t m, uint64_t k, uint64_t n);

/// Computes out = a * b, row-major, a.rows x b.cols; out must overlap neither factor. Every element is a sum over runs
/// of `product_grain` products: inside a run each product is added by one fused multiply-add, in order from 0; runs are
/// added in order. Source of the blocking: Goto, van de Geijn 2008, "Anatomy of high-performance matrix
/// multiplication".
void matrix_product(const matrix_view<float>& a, const matrix_view<float>& b, float* out, std::span<float> scratch,
                    product_shape shape = product_shape::general);
void matrix_product(const matrix_view<double>& a, const matrix_view<double>& b, double* out, std::span<double> scratch,
                    product_shape shape = product_shape::general);

/// Scalar implementations of matrix_product for fp32 and fp64, with the same bits; tests compare the SIMD code with
/// them.
void matrix_product_reference(const matrix_view<float>& a, const matrix_view<float>& b, float* out);
void matrix_product_reference(const matrix_view<double>& a, const matrix_view<double>& b, double* out);

}  // namespace troupe::kernels
