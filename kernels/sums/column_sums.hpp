// Sums of a matrix's columns, for the gradient of a bias.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// Number of rows that are added up before they are added to the sum of the earlier rows.
inline constexpr uint64_t column_sum_grain = 64;

/// Computes out[c] = sum over the `rows` of x[r * row_stride + c], for `width` columns. Both types are f32, bf16 or
/// f16, or both are f64. Sums are formed in fp32 (fp64 for f64) by runs of `column_sum_grain` rows, each in order from
/// 0, and rounded once: the bits depend on the values and on their number alone.
void column_sums(const std::byte* x, core::dtype type, uint64_t rows, uint64_t width, uint64_t row_stride,
                 std::byte* out, core::dtype out_type);

/// Scalar implementation of column_sums, with the same bits. column_sums calls it for f64; tests compare the SIMD code
/// with it.
void column_sums_reference(const std::byte* x, core::dtype type, uint64_t rows, uint64_t width, uint64_t row_stride,
                           std::byte* out, core::dtype out_type);

}  // namespace troupe::kernels
