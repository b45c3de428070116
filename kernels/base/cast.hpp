// Converts between stored floating types. Owns the loop; leaves the rounding of one value to half.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// Position and value of a finite number that the narrower type cannot represent.
struct cast_overflow {
  uint64_t element = 0;
  double value = 0;
};

/// Converts `count` elements of `from` at `in` to `to` at `out`; both types are among f64, f32, bf16, f16, at any
/// alignment. Rounds once to nearest even; NaN becomes a quiet NaN; a value that is too large becomes infinity; equal
/// types are copied bit by bit. `in` and `out` must not overlap, unless they are the same address and the types have
/// the same size. Returns the first finite element that became infinite; nullopt if there is none.
std::optional<cast_overflow> cast(const std::byte* in, core::dtype from, std::byte* out, core::dtype to,
                                  uint64_t count);

/// Scalar implementation of `cast`, one element at a time, with the same bits. `cast` uses it for conversions from or
/// to f64; tests compare the SIMD code with it.
std::optional<cast_overflow> cast_reference(const std::byte* in, core::dtype from, std::byte* out, core::dtype to,
                                            uint64_t count);

}  // namespace troupe::kernels
