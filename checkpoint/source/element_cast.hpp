// Stored floating elements as another floating type, a value at a time: for what passes through checkpoint/ without
// a model. Inside a run the same is kernels/base/cast.hpp's, with the same bits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/dtype.hpp"

namespace troupe::checkpoint {

/// fp64, fp32, bf16 and fp16.
constexpr bool is_floating(core::dtype type) {
  return type == core::dtype::f64 || type == core::dtype::f32 || type == core::dtype::bf16 || type == core::dtype::f16;
}

/// `count` elements of floating type `from` at `in`, at any alignment, become `to` at `out`. Rounds once to nearest
/// even; what is too large becomes infinity, a NaN quiet; equal types are copied as they are.
void cast_elements(core::dtype from, const std::byte* in, core::dtype to, std::byte* out, uint64_t count);

/// A finite value that a narrower type does not hold.
struct cast_overflow {
  uint64_t element = 0;
  double value = 0;
};

/// The first finite element of `in` that cast_elements() made infinite in `out`; nothing where there is none.
std::optional<cast_overflow> first_overflow(core::dtype from, const std::byte* in, core::dtype to, const std::byte* out,
                                            uint64_t count);

/// Such elements of `out` become the largest finite number of their sign. Returns how many there were.
uint64_t clamp_overflows(core::dtype from, const std::byte* in, core::dtype to, std::byte* out, uint64_t count);

/// The largest finite number of a floating type.
double largest_of(core::dtype type);

/// Values that were clamped, of all readers of a source together.
struct clamped_values {
  std::atomic<uint64_t> count{0};
};

}  // namespace troupe::checkpoint
