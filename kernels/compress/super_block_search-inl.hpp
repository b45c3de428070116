// Limits, rounding and sums of a fixed order that the searches for scales of 256-element blocks share. Plain loops,
// compiled once per SIMD target (after hwy/foreach_target.h); all targets give the same bits, because no additions are
// reordered and no multiply-adds are fused.
#if defined(TROUPE_KERNELS_SUPER_BLOCK_SEARCH_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_SUPER_BLOCK_SEARCH_INL_HPP
#undef TROUPE_KERNELS_SUPER_BLOCK_SEARCH_INL_HPP
#else
#define TROUPE_KERNELS_SUPER_BLOCK_SEARCH_INL_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/base/half.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

inline constexpr uint32_t super_block = 256;  ///< number of elements of a super-block
/// Number of first scales that are tried for a run of elements: the scale for which the largest element gets the
/// highest code, and scales for which it would get a code that is lower or higher by multiples of `scale_step`.
inline constexpr int first_scales = 21;
inline constexpr float scale_step = 0.1F;
inline constexpr int refits = 2;  ///< largest number of times that the fp16 factors of a block are fitted again
/// Error with which a search begins, before it has found a candidate.
inline constexpr float infinity = std::numeric_limits<float>::infinity();
/// Limit of |x| of elements that are quantised: fp16 factors cannot represent larger values, and squares of smaller
/// values do not overflow.
inline constexpr float out_of_reach = 0x1p30F;

/// True if all elements of a block are below the limit out_of_reach.
inline bool is_in_reach(const float* x) {
  return std::all_of(x, x + super_block, [](float v) { return std::abs(v) < out_of_reach; });
}

/// Returns `x` rounded to fp16.
inline float as_half(float x) { return float_from_f16(f16_from_float(x)); }

/// Rounds to nearest even, for values far below 2^22; in a form that compilers turn into vectors.
inline float rounded(float x) {
  constexpr float shift = 0x1.8p23F;
  return (x + shift) - shift;
}
/// Returns the integer nearest to x in [low, high]; both limits are integers.
inline float rounded_within(float x, float low, float high) { return rounded(std::min(std::max(x, low), high)); }

/// A sum in eight running sums (element i is added to sum i mod 8), so that the order of additions is the same on every
/// processor.
struct lanes {
  static constexpr uint32_t count = 8;
  std::array<float, count> of{};
  [[nodiscard]] float sum() const { return ((of[0] + of[4]) + (of[2] + of[6])) + ((of[1] + of[5]) + (of[3] + of[7])); }
};

/// Returns the sum of `each(i)` for i from 0 to N - 1, in the order of `lanes`.
template <uint32_t N, class Each>
float sum_of(Each&& each) {
  lanes out;
  for (uint32_t i = 0; i < N; i += lanes::count)
    for (uint32_t l = 0; l < lanes::count; ++l) out.of[l] += each(i + l);
  return out.sum();
}

/// Two ways to weight the terms of a sum by column: all_alike leaves each term x as it is, weighted multiplies it by
/// the column's weight w[i]. `count` returns the sum of weights, and `from` the weighting of the columns from one on.
struct all_alike {
  float operator()(uint32_t, float x) const { return x; }
  template <uint32_t N>
  [[nodiscard]] double count() const {
    return static_cast<double>(N);
  }
  [[nodiscard]] all_alike from(uint32_t) const { return {}; }
};
struct weighted {
  const float* w;
  float operator()(uint32_t i, float x) const { return w[i] * x; }
  template <uint32_t N>
  [[nodiscard]] double count() const {
    return static_cast<double>(sum_of<N>([&](uint32_t i) { return w[i]; }));
  }
  [[nodiscard]] weighted from(uint32_t column) const { return {w + column}; }
};

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
