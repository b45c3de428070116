// Which elements, rows, heads and channels of a weight stay when it is pruned. Owns scores, the choice of the best and
// masks on weights; when a mask is made and where it is kept is not decided here. Plain loops: a mask is made once, and
// what is applied in every forward pass is a product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.hpp"
#include "core/error.hpp"

namespace troupe::kernels {

/// How many of `count` scores a ratio keeps: ceil(ratio * count). Refused: a ratio outside (0, 1], and one that leaves
/// nothing of nothing.
core::result<uint64_t> kept_of(double dense_ratio, uint64_t count);

/// keep[i] = 1 for the `kept` largest scores, else 0; among equal ones the first stay. A score that is not a number is
/// above all others where its sign is positive, below where it is negative. Memory: 64 KiB, whatever the count.
void keep_largest(std::span<const float> scores, uint64_t kept, std::span<uint8_t> keep);

/// |x| of each element: the score of unstructured pruning. Type f64, f32, bf16 or f16.
void magnitudes_of(const std::byte* x, core::dtype type, std::span<float> scores);

/// The sum of |x| of each of scores.size() rows of `width` neighbouring elements: a row of a linear weight, a channel
/// of a convolution's. In fp64 (element i to lane i mod 16, lanes added in halves), rounded once.
void row_magnitudes(const std::byte* x, core::dtype type, uint64_t width, std::span<float> scores);

/// x = 0 where an element is not kept, else as it is.
void mask_elements(std::byte* x, core::dtype type, std::span<const uint8_t> keep);
/// The same for rows of `width` elements; of a bias with width 1.
void mask_rows(std::byte* x, core::dtype type, uint64_t width, std::span<const uint8_t> keep);
/// The same for heads of an output projection: of each of `rows` rows, keep.size() blocks of `head_width` columns.
void mask_heads(std::byte* x, core::dtype type, uint64_t rows, uint64_t head_width, std::span<const uint8_t> keep);

/// A mask as bits, the first in the lowest bit of the first byte; and back.
std::vector<uint8_t> packed_mask(std::span<const uint8_t> keep);
void unpack_mask(std::span<const uint8_t> packed, std::span<uint8_t> keep);

}  // namespace troupe::kernels
