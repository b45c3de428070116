// Sums of squares in one fixed order. Owns the arithmetic inside one block of 1,024 elements; a caller that has the
// sums of all blocks adds them in their global order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// Number of running sums (lanes) of a block: element i is added to lane i mod `norm_lanes`, whatever the processor's
/// vector width.
inline constexpr uint64_t norm_lanes = 16;

/// Returns the sum of squares in fp64 of at most `core::partition_grain` elements of f64, f32, bf16 or f16, aligned to
/// their own size. Lanes are summed in order of index, then lane l with lane l + 8, l + 4, l + 2, l + 1. Trailing zeros
/// change no bit.
double block_square_sum(const std::byte* values, core::dtype type, uint64_t count);

/// Sets `out[b]` to block_square_sum of block b; `out` has one number for each full or partial block of
/// `core::partition_grain` elements.
void block_square_sums(const std::byte* values, core::dtype type, uint64_t count, std::span<double> out);

/// Elements whose squares are summed block by block; `out` gets one sum per block, as by `block_square_sums`.
struct squared_elements {
  const std::byte* values = nullptr;
  uint64_t count = 0;
  std::span<double> out;
};

/// Scalar implementation of `block_square_sum`, with the same bits; tests compare the SIMD code with it.
double block_square_sum_reference(const std::byte* values, core::dtype type, uint64_t count);

}  // namespace troupe::kernels
