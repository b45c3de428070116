// Converts stored floating elements to another floating type, and counts or clamps values that the other type cannot
// hold. Leaves the conversion itself to kernels/base/cast.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/dtype.hpp"
#include "kernels/base/cast.hpp"

namespace troupe::formats {

/// True for fp64, fp32, bf16 and fp16.
constexpr bool is_floating(core::dtype type) {
  return type == core::dtype::f64 || type == core::dtype::f32 || type == core::dtype::bf16 || type == core::dtype::f16;
}

using kernels::cast_overflow;

/// Converts `count` elements of type `from` at `in` to type `to` at `out`, with kernels::cast. Returns an element that
/// type `to` cannot hold, if there is one.
inline std::optional<cast_overflow> cast_elements(core::dtype from, const std::byte* in, core::dtype to, std::byte* out,
                                                  uint64_t count) {
  return kernels::cast(in, from, out, to, count);
}

/// Replaces infinite elements of `out` whose originals in `in` are finite by the largest finite number of the same
/// sign. Returns the number of replaced elements. `out` is the result of cast_elements().
uint64_t clamp_overflows(core::dtype from, const std::byte* in, core::dtype to, std::byte* out, uint64_t count);

/// Returns the largest finite number of a floating type.
double largest_of(core::dtype type);

/// Number of values that were clamped to the range of a narrower type, shared by all readers of a source.
struct clamped_values {
  std::atomic<uint64_t> count{0};
};

}  // namespace troupe::formats
