// Norms of queries and of keys over all heads, if each tensor-parallel rank has some of the heads: the sums of squares
// that ranks exchange between two segments, and the norms that they make of these sums. Records autograd history.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

#include "models/layers/norm.hpp"
#include "models/segment/segment_scope.hpp"

namespace troupe::models {

/// Queries and keys, or what belongs to each of them.
template <class T>
using queries_and_keys = std::array<T, 2>;

/// Returns half of the sum of squares of each token's own queries and of its own keys `x` (B, T, own width), formed in
/// fp32 (fp64 for fp64). Shape (N, numbers), in the type of `x`, whose elements have the bits of the two sums: the sums
/// are exchanged unrounded, and their gradients in the type of `x`.
at::Tensor square_sums(const segment_scope& scope, const queries_and_keys<at::Tensor>& x);

/// Returns the RMS norm of this rank's own queries and keys `x` (B, T, own width), formed in fp32 (fp64 for fp64) and
/// rounded once. `widths`: numbers of elements of all ranks together. `sums` (ranks, N, numbers): the square_sums() of
/// all ranks, which are added in rank order; nothing refers to its memory afterwards. The gradient of `sums` is this
/// rank's summand of that of every rank's sums.
queries_and_keys<at::Tensor> joined_norms(const segment_scope& scope, const queries_and_keys<at::Tensor>& x,
                                          const at::Tensor& sums, const queries_and_keys<row_norm>& norms,
                                          const queries_and_keys<uint64_t>& widths);

}  // namespace troupe::models
