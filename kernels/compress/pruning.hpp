// Chooses which elements, rows, heads and channels of a weight are kept when it is pruned. Owns scores, the choice of
// the largest, and applying masks to weights; leaves to its callers when a mask is made and where it is stored. Plain
// loops suffice: a mask is made once, and a forward pass only multiplies with it.
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

/// Sets element i of x to 0 for each i with keep[i] = 0.
void mask_elements(std::byte* x, core::dtype type, std::span<const uint8_t> keep);
/// Sets all elements of row r of x, `width` neighbouring elements, to 0 for each r with keep[r] = 0. For a bias,
/// `width` is 1.
void mask_rows(std::byte* x, core::dtype type, uint64_t width, std::span<const uint8_t> keep);
/// Sets the columns of head h, `head_width` neighbouring columns of each of `rows` rows of an output projection's
/// weight, to 0 for each h with keep[h] = 0.
void mask_heads(std::byte* x, core::dtype type, uint64_t rows, uint64_t head_width, std::span<const uint8_t> keep);

/// Packs a mask into bits, the first in the lowest bit of the first byte; unpack_mask reverses it.
std::vector<uint8_t> packed_mask(std::span<const uint8_t> keep);
void unpack_mask(std::span<const uint8_t> packed, std::span<uint8_t> keep);

}  // namespace troupe::kernels
