// Numbers of 8 and 4 bits as bits: E4M3 without infinities, E2M1, and powers of two as E8M0. Owns conversions of one
// value, rounded once to nearest even and kept within the type's range; leaves loops to callers. Source: Micikevicius
// and others 2022 (arXiv:2209.05433), "FP8 formats for deep learning"; OCP Microscaling Formats (MX) specification 1.0.
#pragma once

#include <bit>
#include <cstdint>

namespace troupe::kernels {

/// Largest finite numbers of the types E4M3 and E2M1.
inline constexpr float e4m3_max = 448.0F;
inline constexpr float e2m1_max = 6.0F;

/// Returns the value of an E4M3 code: sign, 4 bits of exponent, 3 of fraction; all ones is NaN, there are no
/// infinities.
constexpr float float_from_e4m3(uint8_t code) {
  const uint32_t sign = (code & 0x80U) << 24;
  const uint32_t magnitude = code & 0x7FU;
  if (magnitude == 0x7FU) return std::bit_cast<float>(sign | 0x7FC00000U);
  // An E4M3 number's exponent bias is 120 less than a float's. The product with 2^120 corrects that, and is exact, also
  // for subnormals.
  const float value = std::bit_cast<float>(magnitude << 20) * 0x1p120F;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

/// Rounds a float to E4M3, to nearest even; a value beyond the largest number becomes the largest number; NaN stays
/// NaN.
constexpr uint8_t e4m3_from_float(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint8_t>(bits >> 24 & 0x80U);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return sign | 0x7FU;
  if (magnitude >= std::bit_cast<uint32_t>(e4m3_max)) return sign | 0x7EU;
  // Below 2^-6 the result is a subnormal E4M3 number, whose last bit is worth 2^-9. The last bit of 2^14 is worth as
  // much, so adding 2^14 rounds to a subnormal E4M3 number.
  if (magnitude < 0x3C800000U) {
    const auto shifted = std::bit_cast<float>(magnitude) + 0x1p14F;
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0x1p14F)));
  }
  const uint32_t rounded = magnitude + 0x7FFFFU + (magnitude >> 20 & 1U);
  return static_cast<uint8_t>(sign | ((rounded - 0x3C000000U) >> 20));
}

/// Returns the value of an E2M1 code: sign, 2 bits of exponent, 1 of fraction, in the lower 4 bits: 0, 0.5, 1, 1.5, 2,
/// 3, 4 and 6 of both signs.
constexpr float float_from_e2m1(uint8_t code) {
  constexpr float values[8] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  return (code & 8U) != 0 ? -values[code & 7U] : values[code & 7U];
}

/// Rounds a float to E2M1, to nearest even; a magnitude beyond 6 becomes 6; NaN becomes 0, because E2M1 has no NaN. A
/// negative number that rounds to 0 keeps its sign.
constexpr uint8_t e2m1_from_float(float x) {
  const float size = x < 0 ? -x : x;
  const auto above = [size](float limit) { return static_cast<uint32_t>(size > limit); };
  const auto from = [size](float limit) { return static_cast<uint32_t>(size >= limit); };
  const uint32_t code =
      above(0.25F) + from(0.75F) + above(1.25F) + from(1.75F) + above(2.5F) + from(3.5F) + above(5.0F);
  return static_cast<uint8_t>(code | (x < 0 ? 8U : 0U));
}

/// Returns the value of an E8M0 code, 2^(code - 127); 255 is NaN.
constexpr float float_from_e8m0(uint8_t code) {
  if (code == 255) return std::bit_cast<float>(0x7FC00000U);
  return code == 0 ? 0x1p-127F : std::bit_cast<float>(uint32_t{code} << 23);
}

}  // namespace troupe::kernels
