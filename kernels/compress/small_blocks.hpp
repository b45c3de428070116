// Quantises one block of 32 elements, a value at a time: the scalar form of the formats of 32 elements in
// block_formats.hpp. The vector code of block_formats.cpp computes the same.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/base/half.hpp"
#include "kernels/compress/block_formats.hpp"

namespace troupe::kernels {

inline constexpr uint32_t small_block = 32, half_block = 16;
/// Bits of +infinity in fp32: the bits of |x| are at least this number exactly if x is infinite or NaN.
inline constexpr uint32_t infinite_bits = 0x7F800000U;

inline uint32_t magnitude_bits(float x) { return std::bit_cast<uint32_t>(x) & 0x7FFFFFFFU; }

inline float load_half(const std::byte* at) {
  f16 h;
  std::memcpy(&h.bits, at, sizeof h.bits);
  return float_from_f16(h);
}
/// Stores `x` as fp16 at `at`; returns false if it rounds to infinity.
inline bool store_half(float x, std::byte* at) {
  const f16 h = f16_from_float(x);
  std::memcpy(at, &h.bits, sizeof h.bits);
  return (h.bits & 0x7FFFU) < 0x7C00U;
}

/// Returns 1 / d; returns 0 if d is 0 or 1 / d is infinite.
inline float reciprocal_scale(float d) {
  const float r = d == 0 ? 0.0F : 1.0F / d;
  return std::isinf(r) ? 0.0F : r;
}

/// The quantisation parameters of one block of 32 elements; computed once, then used for each element of the block.
struct small_scale {
  float reciprocal = 0, least = 0;  ///< code of an element: (x - least) * reciprocal, then shifted, rounded and clamped
  bool fits = false;                ///< true if the stored fp16 numbers of the block are finite
};

/// Writes the scale d of a block (and its minimum m, in formats that store one) to `out` as fp16. `largest`: the
/// element of largest magnitude; the first one if several are equal.
template <block_format F>
small_scale write_scale(float largest, float low, float high, std::byte* out) {
  small_scale s;
  float d = 0;
  if constexpr (F == block_format::q8_0) {
    d = std::abs(largest) / 127;
  } else if constexpr (F == block_format::q4_0) {
    d = largest / -8;
  } else if constexpr (F == block_format::q5_0) {
    d = largest / -16;
  } else {
    s.least = low + 0.0F;  // adding 0 turns -0 into 0, so the bits do not depend on whether 0 or -0 came first
    d = (high - s.least) / (F == block_format::q4_1 ? 15 : 31);
  }
  s.reciprocal = reciprocal_scale(d);
  s.fits = store_half(d, out);
  if constexpr (F == block_format::q4_1 || F == block_format::q5_1) s.fits = store_half(s.least, out + 2) && s.fits;
  return s;
}

template <block_format F>
bool quantise_small(const float* in, std::byte* out) {
  float largest = in[0], low = in[0], high = in[0];
  for (uint32_t i = 0; i < small_block; ++i) {
    if (magnitude_bits(in[i]) >= infinite_bits) return false;
    if (std::abs(in[i]) > std::abs(largest)) largest = in[i];
    low = std::min(low, in[i]);
    high = std::max(high, in[i]);
  }
  const auto s = write_scale<F>(largest, low, high, out);
  if (!s.fits) return false;
  if constexpr (F == block_format::q8_0) {
    for (uint32_t i = 0; i < small_block; ++i) {
      const float v = in[i] * s.reciprocal, a = std::abs(v), whole = std::floor(a);
      const float rounded = whole + (a - whole >= 0.5F ? 1.0F : 0.0F);  // rounds halves away from zero
      out[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::copysign(std::min(rounded, 127.0F), v)));
    }
  } else {
    constexpr bool five = F == block_format::q5_0 || F == block_format::q5_1;
    constexpr bool affine = F == block_format::q4_1 || F == block_format::q5_1;
    constexpr float shift = affine ? 0.5F : five ? 16.5F : 8.5F;
    std::byte* at = out + (affine ? 4 : 2);
    uint32_t fifth = 0;
    std::array<uint8_t, small_block> q{};
    for (uint32_t i = 0; i < small_block; ++i) {
      const float v = affine ? (in[i] - s.least) * s.reciprocal + shift : in[i] * s.reciprocal + shift;
      q[i] = static_cast<uint8_t>(std::min(static_cast<int>(v), five ? 31 : 15));
      fifth |= static_cast<uint32_t>(q[i] >> 4U) << i;
    }
    if constexpr (five) {
      std::memcpy(at, &fifth, sizeof fifth);
      at += sizeof fifth;
    }
    for (uint32_t i = 0; i < half_block; ++i)
      at[i] = static_cast<std::byte>((q[i] & 15U) | ((q[i + half_block] & 15U) << 4U));
  }
  return true;
}

template <block_format F>
bool dequantise_small(const std::byte* in, float* out) {
  const float d = load_half(in);
  if (!std::isfinite(d)) return false;
  if constexpr (F == block_format::q8_0) {
    for (uint32_t i = 0; i < small_block; ++i)
      out[i] = static_cast<float>(static_cast<int8_t>(std::to_integer<uint8_t>(in[2 + i]))) * d;
  } else {
    constexpr bool five = F == block_format::q5_0 || F == block_format::q5_1;
    constexpr bool affine = F == block_format::q4_1 || F == block_format::q5_1;
    const float m = affine ? load_half(in + 2) : 0.0F;
    if (!std::isfinite(m)) return false;
    const std::byte* at = in + (affine ? 4 : 2);
    uint32_t fifth = 0;
    if constexpr (five) {
      std::memcpy(&fifth, at, sizeof fifth);
      at += sizeof fifth;
    }
    for (uint32_t i = 0; i < small_block; ++i) {
      const auto byte = std::to_integer<uint32_t>(at[i % half_block]);
      const uint32_t q = (i < half_block ? byte & 15U : byte >> 4U) | ((fifth >> i & 1U) << 4U);
      if constexpr (affine)
        out[i] = d * static_cast<float>(q) + m;
      else
        out[i] = d * static_cast<float>(static_cast<int>(q) - (five ? 16 : 8));
    }
  }
  return true;
}

}  // namespace troupe::kernels
