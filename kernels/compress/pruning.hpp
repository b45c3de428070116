// Chooses which elements, rows, heads and channels of a weight are kept when it is pruned. Owns scores and the choice
// of the largest; leaves to its callers when a mask is made and where it is stored, and to weight_mask.hpp its
// application. Plain loops suffice: a mask is made once, and a forward pass only multiplies with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.hpp"
#include "core/error.hpp"

namespace troupe::kernels {

/// Returns how many of `count` scores a ratio keeps: ceil(ratio * count). Errors: a ratio outside (0, 1], and a count
/// of 0.
core::result<uint64_t> kept_of(double dense_ratio, uint64_t count);

/// Sets keep[i] = 1 for the `kept` largest scores, else 0; among equal ones the first are kept. A NaN is above all
/// other scores if its sign is positive, below them if it is negative. Memory: 64 KiB, whatever the count.
void keep_largest(std::span<const float> scores, uint64_t kept, std::span<uint8_t> keep);

/// Sets scores[i] to |x[i]|, the score of an element in unstructured pruning. `type` is f64, f32, bf16 or f16.
void magnitudes_of(const std::byte* x, core::dtype type, std::span<float> scores);

/// Sets scores[r] to the sum of |x| over row r, which has `width` neighbouring elements: a row of a linear weight, or a
/// channel of a convolution's weight. Computed in fp64 (element i is added to running sum i mod 16, the 16 sums are
/// added pairwise), rounded once.
void row_magnitudes(const std::byte* x, core::dtype type, uint64_t width, std::span<float> scores);

/// Packs a mask into bits, the first in the lowest bit of the first byte.
std::vector<uint8_t> packed_mask(std::span<const uint8_t> keep);

}  // namespace troupe::kernels
