// The two 16-bit floating types as bits: conversion of one value, rounded once to nearest even. Owns the meaning of
// "rounded" everywhere in Troupe; the SIMD and CUDA kernels produce the same bits. Conversions of bf16 use integer
// arithmetic only. Conversions of f16 multiply and add floats, which may be subnormal, so the processor must not be in
// a mode that treats subnormals as zero.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/base/device.hpp"

namespace troupe::kernels {

/// A stored bfloat16: sign, 8 bits of exponent, 7 of fraction.
struct bf16 {
  uint16_t bits = 0;
  friend constexpr bool operator==(bf16, bf16) = default;  ///< compares bits, not numbers
};

/// A stored IEEE binary16: sign, 5 bits of exponent, 10 of fraction.
struct f16 {
  uint16_t bits = 0;
  friend constexpr bool operator==(f16, f16) = default;  ///< compares bits, not numbers
};

TROUPE_HOST_DEVICE constexpr float float_from_bf16(bf16 h) {
  return std::bit_cast<float>(static_cast<uint32_t>(h.bits) << 16);
}

/// Rounds a float to bf16, to nearest even; a NaN keeps its sign and upper fraction bits and becomes quiet.
TROUPE_HOST_DEVICE constexpr bf16 bf16_from_float(float x) {
  const auto u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7FFFFFFFU) > 0x7F800000U) return {static_cast<uint16_t>((u >> 16) | 0x40U)};
  return {static_cast<uint16_t>((u + 0x7FFFU + ((u >> 16) & 1U)) >> 16)};
}

TROUPE_HOST_DEVICE constexpr float float_from_f16(f16 h) {
  const uint32_t sign = (h.bits & 0x8000U) << 16;
  const uint32_t magnitude = (h.bits & 0x7FFFU) << 13;
  if (magnitude >= 0x0F800000U) {  // infinity or NaN
    const uint32_t quiet = magnitude > 0x0F800000U ? 0x00400000U : 0U;
    return std::bit_cast<float>(sign | 0x70000000U | magnitude | quiet);
  }
  // An f16's exponent bias is 112 less than a float's. The product with 2^112 corrects that, and is exact, also for
  // subnormals.
  const float value = std::bit_cast<float>(magnitude) * 0x1p112F;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

/// Rounds a float to f16, to nearest even: magnitudes from 65,520 on become infinity (the largest finite number is
/// 65,504); a NaN keeps its sign and upper fraction bits and becomes quiet.
TROUPE_HOST_DEVICE constexpr f16 f16_from_float(float x) {
  const auto u = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (u >> 16) & 0x8000U;
  const uint32_t magnitude = u & 0x7FFFFFFFU;
  uint32_t out = 0;
  if (magnitude >= 0x47800000U) {  // 2^16 and above, infinity, NaN
    out = magnitude > 0x7F800000U ? 0x7E00U | ((magnitude >> 13) & 0x3FFU) : 0x7C00U;
  } else if (magnitude < 0x38800000U) {  // below 2^-14, where the result is a subnormal f16
    // The last bit of 0.5 is worth 2^-24, as much as the last bit of a subnormal f16, so adding 0.5 rounds to a
    // subnormal f16.
    out = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000U;
  } else {
    out = (magnitude - 0x38000000U + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
  }
  return {static_cast<uint16_t>(sign | out)};
}

/// Rounds a double to a float such that a second rounding, to 16 bits, gives the bits of a single rounding: "round to
/// odd". Source: Boldo, Melquiond 2008, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding
/// to odd".
TROUPE_HOST_DEVICE constexpr float float_rounded_to_odd(double x) {
  const auto nearest = static_cast<float>(x);
  const auto back = static_cast<double>(nearest);
  if (back == x || x != x) return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  const bool away_from_zero = (x < 0) ? back < x : back > x;
  if (away_from_zero) bits -= 1;
  return std::bit_cast<float>(bits | 1U);
}

/// `widen` converts an element of a stored type to the type that it is computed in, and `narrow` converts back.
TROUPE_HOST_DEVICE constexpr float widen(bf16 h) { return float_from_bf16(h); }
TROUPE_HOST_DEVICE constexpr float widen(f16 h) { return float_from_f16(h); }
TROUPE_HOST_DEVICE constexpr float widen(float x) { return x; }
TROUPE_HOST_DEVICE constexpr double widen(double x) { return x; }

template <class To>
TROUPE_HOST_DEVICE constexpr To narrow(float x);
template <>
TROUPE_HOST_DEVICE constexpr float narrow<float>(float x) {
  return x;
}
template <>
TROUPE_HOST_DEVICE constexpr double narrow<double>(float x) {
  return static_cast<double>(x);
}
template <>
TROUPE_HOST_DEVICE constexpr bf16 narrow<bf16>(float x) {
  return bf16_from_float(x);
}
template <>
TROUPE_HOST_DEVICE constexpr f16 narrow<f16>(float x) {
  return f16_from_float(x);
}

template <class To>
TROUPE_HOST_DEVICE constexpr To narrow(double x);
template <>
TROUPE_HOST_DEVICE constexpr double narrow<double>(double x) {
  return x;
}
template <>
TROUPE_HOST_DEVICE constexpr float narrow<float>(double x) {
  return static_cast<float>(x);
}
template <>
TROUPE_HOST_DEVICE constexpr bf16 narrow<bf16>(double x) {
  return bf16_from_float(float_rounded_to_odd(x));
}
template <>
TROUPE_HOST_DEVICE constexpr f16 narrow<f16>(double x) {
  return f16_from_float(float_rounded_to_odd(x));
}

}  // namespace troupe::kernels
