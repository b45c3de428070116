#include "checkpoint/source/element_cast.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace troupe::checkpoint {
namespace {

using core::dtype;

constexpr uint32_t quiet_nan = 0x7FC00000U;

float from_half(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16;
  const uint32_t exponent = half >> 10 & 0x1FU, fraction = half & 0x3FFU;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | (fraction != 0 ? quiet_nan : 0x7F800000U) | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(fraction) * 0x1p-24F));
}

uint16_t to_half(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = bits >> 16 & 0x8000U, size = bits & 0x7FFFFFFFU;
  uint32_t out = 0;
  if (size > 0x7F800000U) {
    out = 0x7E00U | (size >> 13 & 0x3FFU);
  } else if (size >= 0x477FF000U) {  // 65,520: halfway to what is beyond the largest
    out = 0x7C00U;
  } else if (size < 0x38800000U) {  // a subnormal is a multiple of 2^-24, which is the last digit of 0.5
    out = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5F) - std::bit_cast<uint32_t>(0.5F);
  } else {
    out = (size - (112U << 23) + 0xFFFU + (size >> 13 & 1U)) >> 13;
  }
  return static_cast<uint16_t>(sign | out);
}

float from_brain(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t to_brain(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<uint16_t>(bits >> 16 | 0x40U);
  return static_cast<uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

/// A double as a float whose last digit remembers that something was cut off: rounding that once more, to 16 bits,
/// gives what one rounding would.
float cut(double x) {
  const auto nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || std::isnan(x)) return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(x)) --bits;
  return std::bit_cast<float>(bits | 1U);
}

/// Loops of one known conversion each, so that the compiler may vectorise them.
template <class From, class To, class Convert>
void each(const std::byte* in, std::byte* out, uint64_t count, Convert convert) {
  for (uint64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, in + i * sizeof(From), sizeof(From));
    const To result = convert(value);
    std::memcpy(out + i * sizeof(To), &result, sizeof(To));
  }
}

template <class From, class Widen>
void from_narrow(const std::byte* in, dtype to, std::byte* out, uint64_t count, Widen widen) {
  if (to == dtype::f32) return each<From, float>(in, out, count, widen);
  if (to == dtype::f64)
    return each<From, double>(in, out, count, [&](From v) { return static_cast<double>(widen(v)); });
  if (to == dtype::bf16) return each<From, uint16_t>(in, out, count, [&](From v) { return to_brain(widen(v)); });
  each<From, uint16_t>(in, out, count, [&](From v) { return to_half(widen(v)); });
}

/// One element as a double.
double wide(dtype type, const std::byte* at) {
  double out = 0;
  cast_elements(type, at, dtype::f64, reinterpret_cast<std::byte*>(&out), 1);
  return out;
}

/// Numbers of the elements that are infinite, in order; `told` returns false to end.
template <class T, class Told>
void each_infinity(const std::byte* out, uint64_t count, T infinity, Told told) {
  const T magnitude = static_cast<T>(~(T{1} << (8 * sizeof(T) - 1)));
  for (uint64_t i = 0; i < count; ++i) {
    T bits;
    std::memcpy(&bits, out + i * sizeof(T), sizeof(T));
    if ((bits & magnitude) == infinity && !told(i)) return;
  }
}

template <class Told>
void each_infinity(dtype type, const std::byte* out, uint64_t count, Told told) {
  if (type == dtype::f16) return each_infinity<uint16_t>(out, count, 0x7C00U, told);
  if (type == dtype::bf16) return each_infinity<uint16_t>(out, count, 0x7F80U, told);
  if (type == dtype::f32) return each_infinity<uint32_t>(out, count, 0x7F800000U, told);
}

/// True if a finite value of one type may be infinite in the other.
bool may_overflow(dtype from, dtype to) { return largest_of(to) < largest_of(from); }

}  // namespace

double largest_of(dtype type) {
  if (type == dtype::f16) return 65504;
  if (type == dtype::bf16) return 0x1.FEp127;
  return type == dtype::f32 ? double{std::numeric_limits<float>::max()} : std::numeric_limits<double>::max();
}

std::optional<cast_overflow> first_overflow(dtype from, const std::byte* in, dtype to, const std::byte* out,
                                            uint64_t count) {
  std::optional<cast_overflow> found;
  if (!may_overflow(from, to)) return found;
  each_infinity(to, out, count, [&](uint64_t i) {
    const double value = wide(from, in + i * core::size_of(from));
    if (!std::isinf(value)) found = {i, value};
    return !found;
  });
  return found;
}

uint64_t clamp_overflows(dtype from, const std::byte* in, dtype to, std::byte* out, uint64_t count) {
  uint64_t clamped = 0;
  if (!may_overflow(from, to)) return clamped;
  each_infinity(to, out, count, [&](uint64_t i) {
    const double value = wide(from, in + i * core::size_of(from));
    if (std::isinf(value)) return true;
    const double held = std::copysign(largest_of(to), value);
    cast_elements(dtype::f64, reinterpret_cast<const std::byte*>(&held), to, out + i * core::size_of(to), 1);
    ++clamped;
    return true;
  });
  return clamped;
}

void cast_elements(dtype from, const std::byte* in, dtype to, std::byte* out, uint64_t count) {
  if (from == to) {
    if (count > 0) std::memcpy(out, in, count * core::size_of(from));
    return;
  }
  if (from == dtype::bf16) return from_narrow<uint16_t>(in, to, out, count, from_brain);
  if (from == dtype::f16) return from_narrow<uint16_t>(in, to, out, count, from_half);
  if (from == dtype::f32) return from_narrow<float>(in, to, out, count, [](float v) { return v; });
  if (to == dtype::f32) return each<double, float>(in, out, count, [](double v) { return static_cast<float>(v); });
  if (to == dtype::bf16) return each<double, uint16_t>(in, out, count, [](double v) { return to_brain(cut(v)); });
  each<double, uint16_t>(in, out, count, [](double v) { return to_half(cut(v)); });
}

}  // namespace troupe::checkpoint
