// Converts a weight's values to small codes with a scale for each group of a row, rounded to nearest, and back. Owns
// the arithmetic of groups and the packing of codes into words; leaves files, and the assignment of values to groups,
// to callers. Source: the rules of the compressed-tensors package 0.20, which gives the same codes and scales for fp32
// weights.
#pragma once

#include <cstdint>
#include <span>

#include "core/dtype.hpp"
#include "core/error.hpp"

namespace troupe::kernels {

/// Type of a code, as which a quantised value is stored: an integer of b bits from -2^(b-1) to 2^(b-1) - 1, or a
/// floating-point number of 8 (e4m3) or 4 (e2m1) bits (small_floats.hpp).
enum class code_kind : uint8_t { integer, e4m3, e2m1 };
/// Type in which the scale of a group is stored: fp32, bf16, fp16, or a floating-point number or power of two of 8
/// bits.
enum class scale_kind : uint8_t { f32, bf16, f16, e4m3, e8m0 };

struct code_format {
  code_kind kind = code_kind::integer;
  uint32_t bits = 4;      ///< bits of an integer code: 2 to 8
  bool symmetric = true;  ///< false: integer codes have a zero point, the code that means 0
  scale_kind scales = scale_kind::f32;
};

/// The scale of a group, rounded to the type in which it is stored, and the code that means 0.
struct group_scale {
  float scale = 1;  ///< factor that turns a code into a value; representable in the scale's stored type
  int32_t zero = 0;
};

/// Returns the factor by which all E4M3 scales of a weight are multiplied before they are stored, so that they use the
/// range of E4M3. `largest` is the largest magnitude of the weight; if it is 0, returns 1.
float global_scale_of(float largest);

/// Returns a group's scale, computed from its values; a scale of type E4M3 is multiplied by `global`, the result of
/// global_scale_of(). A group of zeros has scale 1, also with E8M0 and E4M3. Errors (numeric): values that are not
/// finite, and scales that their type cannot represent.
core::result<group_scale> scale_of(const code_format& format, std::span<const float> group, float global = 1);

/// Encodes a group's values as codes, one byte each (integers in two's complement). `global` is the factor that E4M3
/// scales were multiplied by.
void encode(const code_format& format, const group_scale& scale, std::span<const float> values,
            std::span<uint8_t> codes, float global = 1);
/// Decodes codes to values: (code - zero) * scale, or code * (scale / global) with E4M3 scales; in fp32, rounded once.
void decode(const code_format& format, const group_scale& scale, std::span<const uint8_t> codes,
            std::span<float> values, float global = 1);

/// Returns the 32-bit words that `count` integers of `bits` bits occupy.
constexpr uint64_t packed_words(uint64_t count, uint32_t bits) { return (count * bits + 31) / 32; }

/// Packs integer codes of `bits` bits, to which 2^(bits - 1) is added so that the least is 0, one after another from
/// the lowest bit of the first word on; unpack_integers reverses it.
void pack_integers(std::span<const uint8_t> codes, uint32_t bits, std::span<uint32_t> words);
void unpack_integers(std::span<const uint32_t> words, uint32_t bits, std::span<uint8_t> codes);

/// Packs two codes of 4 bits into a byte, the first in its lower half; the number of codes is even.
void pack_halves(std::span<const uint8_t> codes, std::span<uint8_t> bytes);
void unpack_halves(std::span<const uint8_t> bytes, std::span<uint8_t> codes);

}  // namespace troupe::kernels
