// The arithmetic of every reduction: adds the contributions of ranks to one sum, in one order, with one rounding. Owns
// the rule of docs/numerics.md; leaves the ownership and transfer of slices to fabric/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// Types of a reduction, each one of f64, f32, bf16 and f16, and how contributions are scaled and stored.
struct reduce_options {
  core::dtype input = core::dtype::f32;  ///< type of each rank's contribution
  /// Type to which contributions, and then their sum, are rounded; the type in which they travel.
  core::dtype communication = core::dtype::f32;
  core::dtype output = core::dtype::f32;  ///< type of the stored result
  float input_scale = 1;                  ///< factor on each contribution before it is rounded to `communication`
  bool accumulate = false;                ///< true: adds the sum to the stored value of `output`; false: overwrites it
};

/// Computes, for each of `count` elements:
///   c[r] = round_communication(input_scale * inputs[r])        for every rank r
///   s    = round_communication(((c[0] + c[1]) + c[2]) + ...)   in rank order, in fp32
///   output = round_output(s), or round_output(output + s) when accumulating
/// in fp32, or in fp64 when any of the three types is fp64. Requires at least one input, and pointers aligned to their
/// own element. `output` may be one of the inputs if their types are equal; otherwise nothing may overlap. The bits
/// depend neither on alignment, nor on how a range is split into calls, nor on the processor; the payload of a NaN may.
void sum_in_rank_order(std::span<const std::byte* const> inputs, std::byte* output, uint64_t count,
                       const reduce_options& options);

/// Scalar implementation of sum_in_rank_order, one element at a time, with the same bits. sum_in_rank_order calls it
/// for fp64; tests compare the SIMD code with it.
void sum_in_rank_order_reference(std::span<const std::byte* const> inputs, std::byte* output, uint64_t count,
                                 const reduce_options& options);

/// Continues a sum when different callers hold the contributions. Sets `partial` to ((partial + c[0]) + c[1]) + ...,
/// or to (c[0] + c[1]) + ... if `begins`, with c[r] as in sum_in_rank_order. The partial sum is not rounded; its type
/// is fp32 (fp64 when any of the three types is). Ignores `output` and `accumulate`. To finish, call
/// `sum_in_rank_order` on the partial sum alone, with its type as `input` and factor 1: the result has the bits of
/// one call with all contributions.
void add_in_rank_order(std::span<const std::byte* const> inputs, std::byte* partial, bool begins, uint64_t count,
                       const reduce_options& options);

/// Returns the dtype in which partial sums of a reduction are exchanged: f32 or f64.
core::dtype partial_type(const reduce_options& options);

}  // namespace troupe::kernels
