#include "kernels/sums/column_sums.hpp"

#include <algorithm>
#include <cassert>

#include "kernels/base/with_dtype.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sums/column_sums.cpp"
#include <hwy/foreach_target.h>

#include "kernels/base/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

/// Sums the rows of `Vectors` neighbouring vectors of columns; all running sums stay in registers.
template <size_t Vectors, class D, class T, class Out>
HWY_INLINE void sum_columns(D d, const T* x, uint64_t rows, uint64_t row_stride, Out* out) {
  const uint64_t lanes = hn::Lanes(d);
  floats<D> total[Vectors];
#pragma GCC unroll 8
  for (size_t v = 0; v < Vectors; ++v) total[v] = hn::Zero(d);
  for (uint64_t first = 0; first < rows; first += column_sum_grain) {
    floats<D> run[Vectors];
#pragma GCC unroll 8
    for (size_t v = 0; v < Vectors; ++v) run[v] = hn::Zero(d);
    for (uint64_t r = first; r < std::min(rows, first + column_sum_grain); ++r) {
      const T* row = x + r * row_stride;
#pragma GCC unroll 8
      for (size_t v = 0; v < Vectors; ++v) run[v] = hn::Add(run[v], load(d, row + v * lanes));
    }
#pragma GCC unroll 8
    for (size_t v = 0; v < Vectors; ++v) total[v] = hn::Add(total[v], run[v]);
  }
#pragma GCC unroll 8
  for (size_t v = 0; v < Vectors; ++v) store(d, total[v], out + v * lanes);
}

void sum_all_columns(const std::byte* x, core::dtype type, uint64_t rows, uint64_t width, uint64_t row_stride,
                     std::byte* out, core::dtype out_type) {
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    with_fp32_dtype(out_type, [&]<class Out>(std::type_identity<Out>) {
      const auto* in = reinterpret_cast<const T*>(x);
      auto* to = reinterpret_cast<Out*>(out);
      const full d;
      const uint64_t lanes = hn::Lanes(d);
      uint64_t c = 0;
      for (; c + 8 * lanes <= width; c += 8 * lanes) sum_columns<8>(d, in + c, rows, row_stride, to + c);
      for (; c + lanes <= width; c += lanes) sum_columns<1>(d, in + c, rows, row_stride, to + c);
      for (; c < width; ++c) sum_columns<1>(one_lane(), in + c, rows, row_stride, to + c);
    });
  });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(sum_all_columns);

namespace {
template <class T, class Out>
void sum_by_element(const T* x, uint64_t rows, uint64_t width, uint64_t row_stride, Out* out) {
  using wide = decltype(widen(T{}));
  for (uint64_t c = 0; c < width; ++c) {
    wide total = 0;
    for (uint64_t first = 0; first < rows; first += column_sum_grain) {
      wide run = 0;
      for (uint64_t r = first; r < std::min(rows, first + column_sum_grain); ++r) run += widen(x[r * row_stride + c]);
      total += run;
    }
    out[c] = narrow<Out>(total);
  }
}
}  // namespace

void column_sums(const std::byte* x, core::dtype type, uint64_t rows, uint64_t width, uint64_t row_stride,
                 std::byte* out, core::dtype out_type) {
  if (type == core::dtype::f64) return column_sums_reference(x, type, rows, width, row_stride, out, out_type);
  HWY_DYNAMIC_DISPATCH(sum_all_columns)(x, type, rows, width, row_stride, out, out_type);
}

void column_sums_reference(const std::byte* x, core::dtype type, uint64_t rows, uint64_t width, uint64_t row_stride,
                           std::byte* out, core::dtype out_type) {
  assert((type == core::dtype::f64) == (out_type == core::dtype::f64));
  if (type == core::dtype::f64)
    return sum_by_element(reinterpret_cast<const double*>(x), rows, width, row_stride, reinterpret_cast<double*>(out));
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    with_fp32_dtype(out_type, [&]<class Out>(std::type_identity<Out>) {
      sum_by_element(reinterpret_cast<const T*>(x), rows, width, row_stride, reinterpret_cast<Out*>(out));
    });
  });
}

}  // namespace troupe::kernels
#endif
