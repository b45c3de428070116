#include "kernels/products/matrix_product.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <memory>
#include <utility>

#include "core/math.hpp"

// This file is compiled once per SIMD target, each in a namespace of its own. These definitions are shared by all
// targets, so they come once, before the first target's namespace.
#ifndef TROUPE_KERNELS_MATRIX_PRODUCT_ONCE
#define TROUPE_KERNELS_MATRIX_PRODUCT_ONCE
namespace troupe::kernels {
namespace {

/// Number of rows of the left factor that are packed at a time, which fit the second-level cache, and of columns of the
/// right factor, which fit the third-level cache.
constexpr uint64_t cached_rows = 144;
constexpr uint64_t cached_cols = 1536;

/// Largest tile rows, tile columns and alignment of all SIMD targets: product_scratch() does not know which target is
/// used.
constexpr uint64_t most_tile_rows = 12;
constexpr uint64_t most_tile_cols = 32;
constexpr uint64_t alignment_bytes = 64;

template <class T>
void product_by_element(const matrix_view<T>& a, const matrix_view<T>& b, T* out) {
  assert(a.cols == b.rows);
  for (uint64_t i = 0; i < a.rows; ++i) {
    for (uint64_t j = 0; j < b.cols; ++j) {
      T sum = 0;
      for (uint64_t first = 0; first < a.cols; first += product_grain) {
        T run = 0;
        for (uint64_t k = first; k < std::min(a.cols, first + product_grain); ++k)
          run = std::fma(a.at(i, k), b.at(k, j), run);
        sum = first == 0 ? run : sum + run;
      }
      out[i * b.cols + j] = sum;
    }
  }
}

}  // namespace
}  // namespace troupe::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/products/matrix_product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_NATIVE_FMA

/// Number of rows of a tile of the result. A tile, two vectors wide, is held in registers while it is computed.
constexpr size_t tile_rows = HWY_TARGET == HWY_AVX2 ? 6 : 12;
template <class T>
constexpr size_t tile_cols = 2 * hn::MaxLanes(hn::ScalableTag<T>());

/// Copies `rows` x `cols` elements of `from`, starting at (i0, j0), into panels of `Width` columns. The rows of a panel
/// are stored one after another; zeros fill the columns that the last panel lacks.
template <size_t Width, class T>
void pack(const matrix_view<T>& from, uint64_t i0, uint64_t rows, uint64_t j0, uint64_t cols, T* to) {
  for (uint64_t first = 0; first < cols; first += Width) {
    const uint64_t width = std::min<uint64_t>(Width, cols - first);
    for (uint64_t i = 0; i < rows; ++i, to += Width) {
      const T* row = from.data + (i0 + i) * from.row_stride + (j0 + first) * from.col_stride;
      for (uint64_t j = 0; j < width; ++j) to[j] = row[j * from.col_stride];
      for (uint64_t j = width; j < Width; ++j) to[j] = 0;
    }
  }
}

/// Computes one tile of the result: the product of a packed panel of the left factor and one of the right factor, over
/// `depth` terms. All array indices are compile-time constants (R...), so that the compiler keeps the sums in
/// registers.
template <class T, size_t... R>
HWY_INLINE void multiply_tile(std::index_sequence<R...>, const T* HWY_RESTRICT a, const T* HWY_RESTRICT b,
                              uint64_t depth, T* HWY_RESTRICT tile) {
  const hn::ScalableTag<T> d;
  constexpr size_t lanes = tile_cols<T> / 2;
  hn::Vec<decltype(d)> left[sizeof...(R)] = {((void)R, hn::Zero(d))...};
  hn::Vec<decltype(d)> right[sizeof...(R)] = {((void)R, hn::Zero(d))...};
  for (uint64_t k = 0; k < depth; ++k, a += sizeof...(R), b += 2 * lanes) {
    const auto b0 = hn::LoadU(d, b);
    const auto b1 = hn::LoadU(d, b + lanes);
    ((left[R] = hn::MulAdd(hn::Set(d, a[R]), b0, left[R]), right[R] = hn::MulAdd(hn::Set(d, a[R]), b1, right[R])), ...);
  }
  ((hn::Store(left[R], d, tile + R * 2 * lanes), hn::Store(right[R], d, tile + R * 2 * lanes + lanes)), ...);
}

template <class T>
void add_tile(const T* HWY_RESTRICT tile, uint64_t rows, uint64_t cols, bool first_run, T* HWY_RESTRICT out,
              uint64_t stride) {
  for (uint64_t i = 0; i < rows; ++i, tile += tile_cols<T>, out += stride) {
    if (first_run)
      for (uint64_t j = 0; j < cols; ++j) out[j] = tile[j];
    else
      for (uint64_t j = 0; j < cols; ++j) out[j] = out[j] + tile[j];
  }
}

template <class T>
void product_as(const matrix_view<T>& a, const matrix_view<T>& b, T* out, std::span<T> scratch, product_shape shape) {
  const uint64_t m = a.rows;
  const uint64_t n = b.cols;
  const uint64_t depth = std::min(product_grain, a.cols);
  if (depth == 0) std::fill_n(out, m * n, T{0});
  static_assert(tile_rows <= most_tile_rows && tile_cols<T> <= most_tile_cols);
  assert(scratch.size() >= product_scratch(m, a.cols, n));
  void* start = scratch.data();
  size_t bytes = scratch.size_bytes();
  T* const packed_a = static_cast<T*>(std::align(alignment_bytes, sizeof(T), start, bytes));
  T* const packed_b = packed_a + depth * core::round_up(std::min(cached_rows, m), most_tile_rows);
  HWY_ALIGN T tile[tile_rows * tile_cols<T>];
  const auto symmetric = shape == product_shape::symmetric;
  for (uint64_t j0 = 0; j0 < n; j0 += cached_cols) {
    const uint64_t cols = std::min(cached_cols, n - j0);
    for (uint64_t k0 = 0; k0 < a.cols; k0 += product_grain) {
      const uint64_t run = std::min(product_grain, a.cols - k0);
      pack<tile_cols<T>>(b, k0, run, j0, cols, packed_b);
      for (uint64_t i0 = 0; i0 < m; i0 += cached_rows) {
        const uint64_t rows = std::min(cached_rows, m - i0);
        if (symmetric && i0 >= j0 + cols) break;  // all further rows of the result are below the diagonal
        pack<tile_rows>(a.transposed(), k0, run, i0, rows, packed_a);
        for (uint64_t j = 0; j < cols; j += tile_cols<T>) {
          for (uint64_t i = 0; i < rows; i += tile_rows) {
            if (symmetric && i0 + i >= j0 + j + tile_cols<T>) break;
            multiply_tile(std::make_index_sequence<tile_rows>(), packed_a + i * run, packed_b + j * run, run, tile);
            add_tile(tile, std::min<uint64_t>(tile_rows, rows - i), std::min<uint64_t>(tile_cols<T>, cols - j), k0 == 0,
                     out + (i0 + i) * n + j0 + j, n);
          }
        }
      }
    }
  }
  if (!symmetric) return;
  for (uint64_t i = 1; i < m; ++i)
    for (uint64_t j = 0; j < i; ++j) out[i * n + j] = out[j * n + i];
}

#else  // targets without FMA instructions compute each fused multiply-add by std::fma, in software

template <class T>
void product_as(const matrix_view<T>& a, const matrix_view<T>& b, T* out, std::span<T> /*scratch*/,
                product_shape /*shape*/) {
  product_by_element(a, b, out);
}

#endif

void product_f32(const matrix_view<float>& a, const matrix_view<float>& b, float* out, std::span<float> scratch,
                 product_shape shape) {
  product_as(a, b, out, scratch, shape);
}
void product_f64(const matrix_view<double>& a, const matrix_view<double>& b, double* out, std::span<double> scratch,
                 product_shape shape) {
  product_as(a, b, out, scratch, shape);
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(product_f32);
HWY_EXPORT(product_f64);

uint64_t product_scratch(uint64_t m, uint64_t k, uint64_t n) {
  return std::min(product_grain, k) * (core::round_up(std::min(cached_rows, m), most_tile_rows) +
                                       core::round_up(std::min(cached_cols, n), most_tile_cols)) +
         alignment_bytes / sizeof(float);
}

void matrix_product(const matrix_view<float>& a, const matrix_view<float>& b, float* out, std::span<float> scratch,
                    product_shape shape) {
  assert(a.cols == b.rows && (shape == product_shape::general || a.rows == b.cols));
  HWY_DYNAMIC_DISPATCH(product_f32)(a, b, out, scratch, shape);
}

void matrix_product(const matrix_view<double>& a, const matrix_view<double>& b, double* out, std::span<double> scratch,
                    product_shape shape) {
  assert(a.cols == b.rows && (shape == product_shape::general || a.rows == b.cols));
  HWY_DYNAMIC_DISPATCH(product_f64)(a, b, out, scratch, shape);
}

void matrix_product_reference(const matrix_view<float>& a, const matrix_view<float>& b, float* out) {
  product_by_element(a, b, out);
}
void matrix_product_reference(const matrix_view<double>& a, const matrix_view<double>& b, double* out) {
  product_by_element(a, b, out);
}

}  // namespace troupe::kernels
#endif
