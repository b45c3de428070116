// The arithmetic of every reduction: contributions of ranks become one sum, in one order, with one rounding.
// Owns the rule of docs/numerics.md; who holds which slice and when it moves is fabric/'s.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// Types of a reduction, each one of f64, f32, bf16, f16.
struct reduce_options {
  core::dtype input = core::dtype::f32;          ///< of each rank's contribution
  core::dtype communication = core::dtype::f32;  ///< that contributions and their sum are rounded to
  core::dtype output = core::dtype::f32;         ///< of the stored result
  float input_scale = 1;    ///< factor on each contribution before it is rounded to `communication`
  bool accumulate = false;  ///< add the sum to what `output` holds instead of overwriting it
};

/// Element by element, for `count` elements:
///   c[r] = round_communication(input_scale * inputs[r])        for every rank r
///   s    = round_communication(((c[0] + c[1]) + c[2]) + ...)   in rank order, in fp32
///   output = round_output(s), or round_output(output + s) when accumulating
/// computed in fp32, or in fp64 when any of the three types is fp64. At least one input; pointers aligned to their
/// own element. `output` may be one of the inputs when their types are equal; otherwise nothing overlaps. The bits
/// depend on neither alignment nor how a range is split into calls nor the processor. (Of a NaN, only that it is one.)
void sum_in_rank_order(std::span<const std::byte* const> inputs, std::byte* output, uint64_t count,
                       const reduce_options& options);

/// The scalar twin: the same bits, one element at a time.
void sum_in_rank_order_reference(std::span<const std::byte* const> inputs, std::byte* output, uint64_t count,
                                 const reduce_options& options);

/// A sum that somebody continues where others hold the contributions: what is in `partial` becomes
///   ((partial + c[0]) + c[1]) + ...,   or (c[0] + c[1]) + ... where the sum `begins`
/// with c as above, unrounded, as fp32 (fp64 when any of the three types is). `output` and `accumulate` do not count.
/// `sum_in_rank_order` of the partial sum alone, with its type as `input` and no factor, ends it: the bits are those of
/// all contributions in one call.
void add_in_rank_order(std::span<const std::byte* const> inputs, std::byte* partial, bool begins, uint64_t count,
                       const reduce_options& options);

/// Of a partial sum: f32 or f64.
core::dtype partial_type(const reduce_options& options);

}  // namespace troupe::kernels
