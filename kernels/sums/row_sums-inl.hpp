// Sums over a row, in the same order on every SIMD target: element i is added to running sum (lane) i mod `row_lanes`,
// and the lanes are then added pairwise, the upper half to the lower. Included once per SIMD target, after
// hwy/foreach_target.h.
#if defined(TROUPE_KERNELS_ROW_SUMS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_ROW_SUMS_INL_HPP
#undef TROUPE_KERNELS_ROW_SUMS_INL_HPP
#else
#define TROUPE_KERNELS_ROW_SUMS_INL_HPP
#endif

#include <array>

#include "kernels/base/simd-inl.hpp"
#include "kernels/sums/row_sums.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

/// Terms that row_sums adds for one vector of elements: one vector of terms for each of the `Sums` sums.
template <class D, size_t Sums>
struct terms_of {
  floats<D> of[Sums];
};

/// Returns the sum of the lanes of one vector, added pairwise: the upper half to the lower, until one lane is left.
template <class D>
HWY_INLINE float sum_of_vector(D /*d*/, floats<D> v) {
#if HWY_TARGET != HWY_SCALAR  // vectors of HWY_SCALAR have one lane
  if constexpr (hn::MaxLanes(D()) > 1) {
    const hn::Half<D> half;
    return sum_of_vector(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
#endif
  return hn::GetLane(v);
}

/// Returns `Sums` sums over a row of `width` elements. `terms(d, i)` returns the terms of the vector (of type d) that
/// begins at element i.
template <size_t Sums, class F>
HWY_INLINE std::array<float, Sums> row_sums(uint64_t width, F&& terms) {
  using vector = hn::CappedTag<float, row_lanes / 2>;
  const vector d;
  constexpr uint64_t step = hn::MaxLanes(vector());
  constexpr uint64_t vectors = row_lanes / step;
  floats<vector> lanes[Sums][vectors];
#pragma GCC unroll 64
  for (uint64_t v = 0; v < vectors; ++v)
#pragma GCC unroll 4
    for (size_t s = 0; s < Sums; ++s) lanes[s][v] = hn::Zero(d);
  uint64_t i = 0;
  for (; i + row_lanes <= width; i += row_lanes) {
#pragma GCC unroll 64
    for (uint64_t v = 0; v < vectors; ++v) {
      const auto more = terms(d, i + v * step);
#pragma GCC unroll 4
      for (size_t s = 0; s < Sums; ++s) lanes[s][v] = hn::Add(lanes[s][v], more.of[s]);
    }
  }
  std::array<float, Sums> sums;
  if (i == width) {  // all elements were added in whole vectors
#pragma GCC unroll 4
    for (size_t s = 0; s < Sums; ++s) {
#pragma GCC unroll 8
      for (uint64_t n = vectors / 2; n > 0; n /= 2)
#pragma GCC unroll 64
        for (uint64_t v = 0; v < n; ++v) lanes[s][v] = hn::Add(lanes[s][v], lanes[s][v + n]);
      sums[s] = sum_of_vector(d, lanes[s][0]);
    }
    return sums;
  }
  alignas(64) float stored[Sums][row_lanes];
#pragma GCC unroll 4
  for (size_t s = 0; s < Sums; ++s)
#pragma GCC unroll 64
    for (uint64_t v = 0; v < vectors; ++v) hn::Store(lanes[s][v], d, stored[s] + v * step);
  for (; i < width; ++i) {
    const auto more = terms(one_lane(), i);
    for (size_t s = 0; s < Sums; ++s) stored[s][i % row_lanes] += hn::GetLane(more.of[s]);
  }
  for (size_t s = 0; s < Sums; ++s) sums[s] = sum_of_lanes(stored[s]);
  return sums;
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
