// Stored floating elements as another floating type, and the values that the other type does not hold: refused, or
// clamped. The conversion itself is kernels/base/cast.hpp's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/dtype.hpp"
#include "kernels/base/cast.hpp"

namespace troupe::checkpoint {

/// fp64, fp32, bf16 and fp16.
constexpr bool is_floating(core::dtype type) {
  return type == core::dtype::f64 || type == core::dtype::f32 || type == core::dtype::bf16 || type == core::dtype::f16;
}

using kernels::cast_overflow;

/// kernels::cast of `count` elements of `from` at `in` to `to` at `out`.
inline std::optional<cast_overflow> cast_elements(core::dtype from, const std::byte* in, core::dtype to, std::byte* out,
                                                  uint64_t count) {
  return kernels::cast(in, from, out, to, count);
}

/// Finite elements of `in` that cast_elements() made infinite in `out` become the largest finite number of their sign.
/// Returns how many there were.
uint64_t clamp_overflows(core::dtype from, const std::byte* in, core::dtype to, std::byte* out, uint64_t count);

/// The largest finite number of a floating type.
double largest_of(core::dtype type);

/// Values that were clamped, of all readers of a source together.
struct clamped_values {
  std::atomic<uint64_t> count{0};
};

}  // namespace troupe::checkpoint
