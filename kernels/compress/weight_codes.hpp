// A weight's values as small codes with a scale for each group of a row: rounded to nearest, and back. Owns the
// arithmetic of groups and the packing of codes into words; files, and which group a value is in, are others' business.
// Source: the rules of the compressed-tensors package 0.20, whose codes and scales these are for fp32 weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.hpp"
#include "core/error.hpp"

namespace troupe::kernels {

/// What a code is: a whole number from -2^(b-1) to 2^(b-1) - 1, or a number of 8 or 4 bits (small_floats.hpp).
enum class code_kind : uint8_t { integer, e4m3, e2m1 };
/// What a scale is stored as: a floating type of core's, or 8 bits.
enum class scale_kind : uint8_t { f32, bf16, f16, e4m3, e8m0 };

struct code_format {
  code_kind kind = code_kind::integer;
  uint32_t bits = 4;      ///< of integers: 2 to 8
  bool symmetric = true;  ///< else integers have a zero point
  scale_kind scales = scale_kind::f32;
};

/// The scale of a group, as it is stored, and the code that means zero.
struct group_scale {
  float scale = 1;  ///< a value of the scale's type
  int32_t zero = 0;
};

/// What all scales of a weight with E4M3 scales are multiplied with, so that they use their type's range: `largest` is
/// that of all magnitudes. 1 where that is 0.
float global_scale_of(float largest);

/// A group's scale from its values; with E4M3 scales it is that of values times `global`. A group of zeros has scale 1,
/// with E8M0 and E4M3 too. Refused (numeric): values that are not finite, and scales that their type does not hold.
core::result<group_scale> scale_of(const code_format& format, std::span<const float> group, float global = 1);

/// Codes of a group, a byte each (two's complement). `global` as above.
void encode(const code_format& format, const group_scale& scale, std::span<const float> values,
            std::span<uint8_t> codes, float global = 1);
/// value = (code - zero) * scale, or code * (scale / global) with E4M3 scales: in fp32, rounded once.
void decode(const code_format& format, const group_scale& scale, std::span<const uint8_t> codes,
            std::span<float> values, float global = 1);

/// 32-bit words that `count` integers of so many bits take.
constexpr uint64_t packed_words(uint64_t count, uint32_t bits) { return (count * bits + 31) / 32; }

/// Integer codes, shifted to begin at 0, one after the other from the lowest bit of the first word on; and back.
void pack_integers(std::span<const uint8_t> codes, uint32_t bits, std::span<uint32_t> words);
void unpack_integers(std::span<const uint32_t> words, uint32_t bits, std::span<uint8_t> codes);

/// Two codes of 4 bits a byte, the first in its lower half; their number is even.
void pack_halves(std::span<const uint8_t> codes, std::span<uint8_t> bytes);
void unpack_halves(std::span<const uint8_t> bytes, std::span<uint8_t> codes);

}  // namespace troupe::kernels
