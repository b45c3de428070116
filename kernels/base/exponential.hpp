// Powers of e and of 2 with the same bits on every processor, in SIMD and in scalar code: computed by polynomials,
// because the results of exp() differ between C libraries. Owns the polynomials; exponential-inl.hpp is the SIMD form,
// with the same operations.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/base/device.hpp"

namespace troupe::kernels {

/// Constant that rounds a number x to an integer n: if |x| is below 2^22, the lowest bits of x + exponent_shift are n +
/// 127. Shifted left by 23, into the exponent field of a float, these bits are the float 2^n.
inline constexpr float exponent_shift = 0x1.8p23F + 127;

inline constexpr float log2_e = 1.44269504F;
/// ln 2 in two parts; the first has so few bits that its product with a small integer is exact.
inline constexpr float ln2_upper = 0.693359375F, ln2_lower = -2.12194440e-4F;
/// Smallest argument for which `exponential` computes a power; for smaller arguments the result is 0.
inline constexpr float exponential_min = -87.0F;

/// Coefficients of minimax polynomials, lowest power first: for 2^r with |r| <= 1/2, with an error of 1e-7, and for e^r
/// with |r| <= ln(2) / 2, with an error of 2e-9.
inline constexpr std::array power_of_two_terms = {1.0F,          0.693147004F,   0.240222424F,
                                                  0.0555073358F, 0.00967151299F, 0.00132647273F};
inline constexpr std::array exponential_terms = {1.0F,          1.0F,           0.49999994F,   0.166664317F,
                                                 0.0416680016F, 0.00837416109F, 0.00138436467F};

/// Returns 2^x for |x| <= 126, with a relative error of at most 1e-7 + 6e-8 |x|.
TROUPE_HOST_DEVICE inline float power_of_two(float x) {
  const float shifted = x + exponent_shift;
  const float r = x - (shifted - exponent_shift), square = r * r;
  constexpr auto c = power_of_two_terms;  // a local copy, because a device cannot read arrays of the host
  const float p = (c[0] + c[1] * r) + square * ((c[2] + c[3] * r) + square * (c[4] + c[5] * r));
  return p * std::bit_cast<float>(std::bit_cast<uint32_t>(shifted) << 23);
}
TROUPE_HOST_DEVICE inline double power_of_two(double x) { return std::exp2(x); }

/// Returns e^x for x <= 88, with an error of at most 2 units in the last place; 0 for x below `exponential_min`; NaN
/// for NaN.
TROUPE_HOST_DEVICE inline float exponential(float x) {
  const float shifted = x * log2_e + exponent_shift, n = shifted - exponent_shift;
  const float r = (x - n * ln2_upper) - n * ln2_lower, square = r * r;
  constexpr auto c = exponential_terms;
  const float high = (c[4] + c[5] * r) + square * c[6];
  const float p = (c[0] + c[1] * r) + square * ((c[2] + c[3] * r) + square * high);
  const float y = p * std::bit_cast<float>(std::bit_cast<uint32_t>(shifted) << 23);
  return x < exponential_min ? 0.0F : y;
}
TROUPE_HOST_DEVICE inline double exponential(double x) { return std::exp(x); }

}  // namespace troupe::kernels
