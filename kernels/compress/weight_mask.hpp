// Masks of weights as bits: which parts a weight keeps, whatever its layout in memory, and a weight or gradient times
// its mask. Owns the order of scores and the way of bits; when a mask is made and kept is not decided here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.hpp"
#include "core/tp_slices.hpp"

namespace troupe::kernels {

/// A bit for each element, the first in the lowest of the first byte (packed_mask of pruning.hpp). 1: it stays.
using mask_bits = std::vector<uint8_t>;

/// A weight of `rows` outputs and `columns` inputs; transposed: it lies as (columns, rows), as GPT-2 has its linear
/// layers. A convolution's filters are its rows.
struct masked_matrix {
  uint64_t rows = 0, columns = 0;
  bool transposed = false;

  [[nodiscard]] uint64_t elements() const { return rows * columns; }
  bool operator==(const masked_matrix&) const = default;
};

/// The `kept` largest |x| of a weight that lies in memory as `m` says, a bit an element in the order of (rows,
/// columns): of equal ones the first stay. The same for a matrix and its transpose.
mask_bits largest_elements(const masked_matrix& m, std::span<const float> weight, uint64_t kept);
/// The `kept` rows of the largest sums of |x|, a bit a row.
mask_bits largest_rows(const masked_matrix& m, std::span<const float> weight, uint64_t kept);

/// All bits 1.
mask_bits whole_mask(uint64_t elements);
/// `into`, which is by element as they lie in memory, loses the elements that `bits` (rows, columns) has not.
void and_elements(const masked_matrix& m, std::span<const uint8_t> bits, std::span<uint8_t> into);
/// The same by rows.
void and_rows(const masked_matrix& m, std::span<const uint8_t> bits, std::span<uint8_t> into);
/// The same by heads: blocks of columns / heads inputs, side by side.
void and_heads(const masked_matrix& m, std::span<const uint8_t> bits, uint64_t heads, std::span<uint8_t> into);

/// Of a mask by element, the bits of those that a share has, as its runs say; of padding all are 1.
mask_bits share_of_mask(std::span<const uint8_t> whole, std::span<const core::tp_run> runs);

/// Whether element `i` stays.
[[nodiscard]] inline bool is_kept(std::span<const uint8_t> bits, uint64_t i) {
  return (bits[i / 8] >> i % 8 & 1U) != 0;
}
/// How many of `elements` stay.
uint64_t kept_in(std::span<const uint8_t> bits, uint64_t elements);

/// x = 0 where bit `first` + i is 0, for each of `elements` elements; else as it is.
void apply_mask(std::byte* x, core::dtype type, uint64_t elements, std::span<const uint8_t> bits, uint64_t first = 0);

}  // namespace troupe::kernels
