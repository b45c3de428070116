// Conversion between stored floating types. Owns only the loop; half.hpp says what rounding means.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// `count` elements of `from` at `in` become `to` at `out`; both among f64, f32, bf16, f16, aligned to their own size.
/// Rounds once to nearest even; NaN becomes a quiet NaN; too large becomes infinity; equal types are copied as they
/// are. `in` and `out` do not overlap, unless they are the same address and the types have the same size.
void cast(const std::byte* in, core::dtype from, std::byte* out, core::dtype to, uint64_t count);

/// The scalar twin: the same bits, one element at a time.
void cast_reference(const std::byte* in, core::dtype from, std::byte* out, core::dtype to, uint64_t count);

}  // namespace troupe::kernels
