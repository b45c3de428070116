// Powers of e and of 2 whose bits are our own: the same on every processor, in vectors and in scalar twins.
// Owns the polynomials; the SIMD form is exponential-inl.hpp, which spells the same operations.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/base/device.hpp"

namespace troupe::kernels {

/// Added to a number of magnitude below 2^22 it leaves the nearest integer, plus 127, in the sum's lowest bits: moved
/// to the exponent's place those are a power of two.
inline constexpr float exponent_shift = 0x1.8p23F + 127;

inline constexpr float log2_e = 1.44269504F;
/// ln 2 in two parts; the first has so few bits that a small integer times it is exact.
inline constexpr float ln2_upper = 0.693359375F, ln2_lower = -2.12194440e-4F;
/// Smaller exponents count as minus infinity.
inline constexpr float exponential_min = -87.0F;

/// 2^r for |r| <= 1/2 to 1e-7, and e^r for |r| <= ln(2) / 2 to 2e-9: minimax polynomials, lowest power first.
inline constexpr std::array power_of_two_terms = {1.0F,          0.693147004F,   0.240222424F,
                                                  0.0555073358F, 0.00967151299F, 0.00132647273F};
inline constexpr std::array exponential_terms = {1.0F,          1.0F,           0.49999994F,   0.166664317F,
                                                 0.0416680016F, 0.00837416109F, 0.00138436467F};

/// 2^x for |x| <= 126, to 1e-7 + 6e-8 |x|.
TROUPE_HOST_DEVICE inline float power_of_two(float x) {
  const float shifted = x + exponent_shift;
  const float r = x - (shifted - exponent_shift), square = r * r;
  constexpr auto c = power_of_two_terms;  // of its own, for a device has no arrays of the host
  const float p = (c[0] + c[1] * r) + square * ((c[2] + c[3] * r) + square * (c[4] + c[5] * r));
  return p * std::bit_cast<float>(std::bit_cast<uint32_t>(shifted) << 23);
}
TROUPE_HOST_DEVICE inline double power_of_two(double x) { return std::exp2(x); }

/// e^x for x <= 88, to 2 units in the last place; 0 below `exponential_min`; NaN stays NaN.
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
