#include "formats/source/element_cast.hpp"

#include <cmath>
#include <cstring>
#include <limits>

namespace troupe::formats {
namespace {

using core::dtype;

/// Returns one element as a double.
double wide(dtype type, const std::byte* at) {
  double out = 0;
  cast_elements(type, at, dtype::f64, reinterpret_cast<std::byte*>(&out), 1);
  return out;
}

/// Calls `told` with the index of each infinite element of `out`.
template <class T, class Told>
void each_infinity(const std::byte* out, uint64_t count, T infinity, Told told) {
  const T magnitude = static_cast<T>(~(T{1} << (8 * sizeof(T) - 1)));
  for (uint64_t i = 0; i < count; ++i) {
    T bits;
    std::memcpy(&bits, out + i * sizeof(T), sizeof(T));
    if ((bits & magnitude) == infinity) told(i);
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

uint64_t clamp_overflows(dtype from, const std::byte* in, dtype to, std::byte* out, uint64_t count) {
  uint64_t clamped = 0;
  if (!may_overflow(from, to)) return clamped;
  each_infinity(to, out, count, [&](uint64_t i) {
    const double value = wide(from, in + i * core::size_of(from));
    if (std::isinf(value)) return;
    const double held = std::copysign(largest_of(to), value);
    cast_elements(dtype::f64, reinterpret_cast<const std::byte*>(&held), to, out + i * core::size_of(to), 1);
    ++clamped;
  });
  return clamped;
}

}  // namespace troupe::formats
