// Stored floating elements as another floating type, a value at a time: for what passes through checkpoint/ without
// a model. Inside a run the same is kernels/base/cast.hpp's, with the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.hpp"

namespace troupe::checkpoint {

/// fp64, fp32, bf16 and fp16.
constexpr bool is_floating(core::dtype type) {
  return type == core::dtype::f64 || type == core::dtype::f32 || type == core::dtype::bf16 || type == core::dtype::f16;
}

/// `count` elements of floating type `from` at `in`, at any alignment, become `to` at `out`. Rounds once to nearest
/// even; what is too large becomes infinity, a NaN quiet; equal types are copied as they are.
void cast_elements(core::dtype from, const std::byte* in, core::dtype to, std::byte* out, uint64_t count);

}  // namespace troupe::checkpoint
