// The order of additions of a sum over a row, and its scalar form; row_sums-inl.hpp is the SIMD form.
#pragma once

#include <cstdint>

namespace troupe::kernels {

/// Number of running sums (lanes) of a row: element i is added to lane i mod `row_lanes`, whatever the processor's
/// vector width.
inline constexpr uint64_t row_lanes = 32;

/// Returns the sum of the lanes, added pairwise: lane l + 16 to lane l, then l + 8, and so on; overwrites them.
template <class T>
T sum_of_lanes(T (&lanes)[row_lanes]) {
  for (uint64_t half = row_lanes / 2; half > 0; half /= 2)
    for (uint64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  return lanes[0];
}

/// Returns the sum of `term(i)` over i from 0 to width - 1, in the order of `row_lanes` lanes.
template <class T, class F>
T row_sum(uint64_t width, F&& term) {
  T lanes[row_lanes] = {};
  for (uint64_t i = 0; i < width; ++i) lanes[i % row_lanes] += term(i);
  return sum_of_lanes(lanes);
}

}  // namespace troupe::kernels
