#include "kernels/compress/weight_codes.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

#include "core/text.hpp"
#include "kernels/base/half.hpp"
#include "kernels/base/small_floats.hpp"

namespace troupe::kernels {
namespace {

/// Constant that rounds to an integer: adding and then subtracting it rounds a number below 2^22 to the nearest
/// integer, ties to even.
constexpr float shift = 0x1.8p23F;

float rounded_scale(scale_kind kind, float scale) {
  switch (kind) {
    case scale_kind::bf16:
      return float_from_bf16(bf16_from_float(scale));
    case scale_kind::f16:
      return float_from_f16(f16_from_float(scale));
    case scale_kind::e4m3:
      return float_from_e4m3(e4m3_from_float(scale));
    default:
      return scale;
  }
}

float least_scale(scale_kind kind) {
  switch (kind) {
    case scale_kind::e4m3:
      return 0x1p-9F;
    case scale_kind::e8m0:
      return 0x1p-127F;
    case scale_kind::f16:
      return 0x1p-24F;
    default:
      return 0x1p-126F;
  }
}

/// Returns the power of two by which the values of a group are divided, so that the group's largest magnitude becomes
/// at least 3.5 and less than 7: E2M1's largest number is 6.
float power_of_two_scale(float largest) {
  // Biased exponent of `largest` after adding a quarter of its power of two: one more from 1.75 on.
  const uint32_t rounded = (std::bit_cast<uint32_t>(largest) + (1U << 21)) >> 23;
  const auto code = static_cast<uint8_t>(rounded < 2 ? 0U : std::min(rounded - 2, 254U));
  return float_from_e8m0(code);
}

struct integer_range {
  float lowest, highest;
};
integer_range range_of(uint32_t bits) {
  const auto half = static_cast<float>(1U << (bits - 1));
  return {-half, half - 1};
}

}  // namespace

float global_scale_of(float largest) {
  const float scale = e4m3_max * e2m1_max / std::fmax(largest, 0x1p-126F);
  return std::isfinite(scale) ? scale : 1.0F;
}

core::result<group_scale> scale_of(const code_format& format, std::span<const float> group, float global) {
  float least = 0, most = 0;  // least and largest value of the group; the range includes 0 even if no value is 0
  bool finite = true;
  for (const float x : group) {
    finite = finite && std::isfinite(x);
    least = std::min(least, x);
    most = std::max(most, x);
  }
  if (!finite) return core::fail(core::error_kind::numeric, "a value is not a finite number");
  const float largest = std::max(-least, most);
  group_scale out;
  if (largest == 0) return out;
  if (format.kind == code_kind::integer) {
    const auto [lowest, highest] = range_of(format.bits);
    const float steps = highest - lowest;
    out.scale = format.symmetric ? largest / (steps / 2) : (most - least) / steps;
  } else if (format.scales == scale_kind::e8m0) {
    out.scale = power_of_two_scale(largest);
  } else {
    out.scale = global * (largest / (format.kind == code_kind::e4m3 ? e4m3_max : e2m1_max));
  }
  const float wanted = out.scale;
  out.scale = std::max(rounded_scale(format.scales, out.scale), least_scale(format.scales));
  if (!std::isfinite(out.scale))
    return core::fail(core::error_kind::numeric, "a scale of " + core::number_text(wanted) + " is beyond its type");
  if (format.kind == code_kind::integer && !format.symmetric) {
    const auto [lowest, highest] = range_of(format.bits);
    out.zero = static_cast<int32_t>(std::nearbyint(std::clamp(lowest - least / out.scale, lowest, highest)));
  }
  return out;
}

void encode(const code_format& format, const group_scale& scale, std::span<const float> values,
            std::span<uint8_t> codes, float global) {
  assert(values.size() == codes.size());
  const float unit = format.scales == scale_kind::e4m3 ? scale.scale / global : scale.scale;
  if (format.kind == code_kind::integer) {
    const auto [lowest, highest] = range_of(format.bits);
    const auto zero = static_cast<float>(scale.zero);
    for (size_t i = 0; i < values.size(); ++i) {
      const float within = std::min(std::max(values[i] / unit + zero, lowest), highest);
      codes[i] = static_cast<uint8_t>(static_cast<int8_t>((within + shift) - shift));
    }
  } else if (format.kind == code_kind::e4m3) {
    for (size_t i = 0; i < values.size(); ++i) codes[i] = e4m3_from_float(values[i] / unit);
  } else {
    for (size_t i = 0; i < values.size(); ++i) codes[i] = e2m1_from_float(values[i] / unit);
  }
}

void decode(const code_format& format, const group_scale& scale, std::span<const uint8_t> codes,
            std::span<float> values, float global) {
  assert(values.size() == codes.size());
  const float unit = format.scales == scale_kind::e4m3 ? scale.scale / global : scale.scale;
  if (format.kind == code_kind::integer) {
    for (size_t i = 0; i < codes.size(); ++i)
      values[i] = static_cast<float>(static_cast<int8_t>(codes[i]) - scale.zero) * unit;
  } else if (format.kind == code_kind::e4m3) {
    for (size_t i = 0; i < codes.size(); ++i) values[i] = float_from_e4m3(codes[i]) * unit;
  } else {
    for (size_t i = 0; i < codes.size(); ++i) values[i] = float_from_e2m1(codes[i]) * unit;
  }
}

void pack_integers(std::span<const uint8_t> codes, uint32_t bits, std::span<uint32_t> words) {
  assert(words.size() == packed_words(codes.size(), bits));
  uint64_t held = 0;
  uint32_t held_bits = 0;
  auto* out = words.data();
  for (const uint8_t code : codes) {
    const auto shifted = static_cast<uint32_t>(static_cast<int8_t>(code) + (1 << (bits - 1)));
    held |= uint64_t{shifted} << held_bits;
    held_bits += bits;
    if (held_bits < 32) continue;
    *out++ = static_cast<uint32_t>(held);
    held >>= 32;
    held_bits -= 32;
  }
  if (held_bits > 0) *out = static_cast<uint32_t>(held);
}

void unpack_integers(std::span<const uint32_t> words, uint32_t bits, std::span<uint8_t> codes) {
  assert(words.size() == packed_words(codes.size(), bits));
  uint64_t held = 0;
  uint32_t held_bits = 0;
  const auto* in = words.data();
  for (uint8_t& code : codes) {
    if (held_bits < bits) {
      held |= uint64_t{*in++} << held_bits;
      held_bits += 32;
    }
    const auto value = static_cast<int32_t>(held & ((1U << bits) - 1));
    code = static_cast<uint8_t>(static_cast<int8_t>(value - (1 << (bits - 1))));
    held >>= bits;
    held_bits -= bits;
  }
}

void pack_halves(std::span<const uint8_t> codes, std::span<uint8_t> bytes) {
  assert(codes.size() == 2 * bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
}

void unpack_halves(std::span<const uint8_t> bytes, std::span<uint8_t> codes) {
  assert(codes.size() == 2 * bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    codes[2 * i] = bytes[i] & 15U;
    codes[2 * i + 1] = static_cast<uint8_t>(bytes[i] >> 4);
  }
}

}  // namespace troupe::kernels
