// Powers of e and logarithms for sums over a row, of which a device computes billions. Every fused multiply-add is
// written explicitly, so that tests on the host compute the same bits; no approximate instruction is used.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/base/exponential.hpp"

namespace troupe::kernels::cuda {

/// Returns e^x for -87 <= x <= 88, to 2.5e-7 + 3e-9 |x|: a minimax polynomial of (e^r - 1 - r) / r^2 for |r| <= ln(2) /
/// 2, which gives e^r to 1.1e-7, times a power of two. NaN stays NaN.
__device__ inline float power_of_e(float x) {
  constexpr float ln2 = 0.693147182F;
  const float shifted = std::fma(x, log2_e, exponent_shift), n = shifted - exponent_shift;
  const float r = std::fma(n, -ln2, x);
  const float high = std::fma(std::fma(std::fma(0.00831246655F, r, 0.041890651F), r, 0.166671172F), r, 0.499992281F);
  const float p = std::fma(std::fma(high, r, 1.0F), r, 1.0F);
  // Multiplies by the power of two instead of adding to the exponent's bits: an integer addition would turn NaN into a
  // number.
  return p * std::bit_cast<float>(std::bit_cast<uint32_t>(shifted) << 23);
}

/// Returns e^x for x <= 88; returns 0 for x below -87.
__device__ inline float fused_exponential(float x) { return x < exponential_min ? 0.0F : power_of_e(x); }

/// Returns e^x for x <= 88, and e^-87 (not 0) for x below -87. Use in sums whose greatest term is 1: e^-87 is less than
/// 2^-125, so even 2^100 such terms do not change the rounded sum.
__device__ inline float exponential_or_least(float x) {
#ifdef __CUDA_ARCH__
  float limited;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(limited) : "f"(x), "f"(exponential_min));
  return power_of_e(limited);
#else
  return power_of_e(x < exponential_min ? exponential_min : x);
#endif
}

/// Returns ln x for x >= 0, to 1e-15 relative or absolute, whichever is larger. NaN stays NaN.
__device__ inline double natural_log(float x) {
  constexpr double ln2 = 0.69314718055994530942, root = 1.41421356237309504880;
  if (!(x > 0) || x == std::numeric_limits<float>::infinity())
    return x == 0 ? -std::numeric_limits<double>::infinity() : double{x};
  constexpr uint64_t fraction = (uint64_t{1} << 52) - 1, one = uint64_t{1023} << 52;
  const auto bits = std::bit_cast<uint64_t>(double{x});
  double m = std::bit_cast<double>((bits & fraction) | one);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  if (m > root) {
    m *= 0.5;
    ++exponent;
  }
  // Series of 2 artanh(z) for |z| <= 0.172: the omitted terms are less than 1e-17 of the result.
  const double z = (m - 1) / (m + 1), square = z * z;
  double series = 1.0 / 19;
#pragma unroll
  for (int odd = 17; odd > 0; odd -= 2) series = series * square + 1.0 / odd;
  return 2 * z * series + exponent * ln2;
}

}  // namespace troupe::kernels::cuda
