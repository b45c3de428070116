// What the searches for scales of 256-element blocks share: limits, rounding, sums of a fixed order. Plain loops,
// compiled once per SIMD target (after hwy/foreach_target.h), which gives all of them the same bits: nothing is added
// in another order, and nothing is multiplied and added in one.
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

inline constexpr uint32_t super_block = 256;  ///< elements
/// Of a run that are tried, in steps of so many levels around the plain one.
inline constexpr int first_scales = 21;
inline constexpr float scale_step = 0.1F;
inline constexpr int refits = 2;  ///< of the factors
/// As an error: nothing was found yet.
inline constexpr float infinity = std::numeric_limits<float>::infinity();
/// No factor in fp16 reaches such values, and below it no square overflows.
inline constexpr float out_of_reach = 0x1p30F;

/// All elements of a block.
inline bool is_in_reach(const float* x) {
  return std::all_of(x, x + super_block, [](float v) { return std::abs(v) < out_of_reach; });
}

/// `x` as fp16 holds it.
inline float as_half(float x) { return float_from_f16(f16_from_float(x)); }

/// To nearest even, for values far below 2^22; a form that compilers turn into vectors.
inline float rounded(float x) {
  constexpr float shift = 0x1.8p23F;
  return (x + shift) - shift;
}
/// The nearest whole number from `low` to `high`, which are whole.
inline float rounded_within(float x, float low, float high) { return rounded(std::min(std::max(x, low), high)); }

/// A sum in eight lanes, whose order does not depend on the processor.
struct lanes {
  static constexpr uint32_t count = 8;
  std::array<float, count> of{};
  [[nodiscard]] float sum() const { return ((of[0] + of[4]) + (of[2] + of[6])) + ((of[1] + of[5]) + (of[3] + of[7])); }
};

/// `each(i)` over [0, N), added up.
template <uint32_t N, class Each>
float sum_of(Each&& each) {
  lanes out;
  for (uint32_t i = 0; i < N; i += lanes::count)
    for (uint32_t l = 0; l < lanes::count; ++l) out.of[l] += each(i + l);
  return out.sum();
}

/// What a column counts in sums: all the same, or what `w` says of it.
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
