// Conversion between stored floating types. Owns only the loop; half.hpp says what rounding means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// A finite value that a narrower type does not hold.
struct cast_overflow {
  uint64_t element = 0;
  double value = 0;
};

/// `count` elements of `from` at `in` become `to` at `out`; both among f64, f32, bf16, f16, at any alignment. Rounds
/// once to nearest even; NaN becomes a quiet NaN; too large becomes infinity; equal types are copied as they are. `in`
/// and `out` do not overlap, unless they are the same address and the types have the same size. Returns the first
/// finite element that became infinite; nothing where there is none.
std::optional<cast_overflow> cast(const std::byte* in, core::dtype from, std::byte* out, core::dtype to,
                                  uint64_t count);

/// The scalar twin: the same bits, one element at a time.
std::optional<cast_overflow> cast_reference(const std::byte* in, core::dtype from, std::byte* out, core::dtype to,
                                            uint64_t count);

}  // namespace troupe::kernels
