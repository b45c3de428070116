// Masks of weights as bits: which elements, rows or heads of a weight are kept, whatever its layout in memory, and
// the function that sets elements of a weight or gradient to zero if they are not kept. Owns the order of scores and
// of bits; leaves to callers when a mask is made and where it is stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.hpp"
#include "core/tp_slices.hpp"

namespace troupe::kernels {

/// A mask with one bit per element, the first in the lowest bit of the first byte (packed_mask of pruning.hpp). A bit
/// of 1 means that the element is kept.
using mask_bits = std::vector<uint8_t>;

/// Shape of a weight of `rows` outputs and `columns` inputs; if transposed it is stored as (columns, rows), as GPT-2
/// stores its linear layers. A convolution's filters are its rows.
struct masked_matrix {
  uint64_t rows = 0, columns = 0;
  bool transposed = false;

  [[nodiscard]] uint64_t elements() const { return rows * columns; }
  bool operator==(const masked_matrix&) const = default;
};

/// Returns a mask of the `kept` largest |x| of a weight stored as `m` describes, one bit per element in the order
/// (rows, columns); among equal ones the first are kept. A matrix and its transpose have the same mask.
mask_bits largest_elements(const masked_matrix& m, std::span<const float> weight, uint64_t kept);
/// Returns a mask of the `kept` rows with the largest sums of |x|, one bit per row.
mask_bits largest_rows(const masked_matrix& m, std::span<const float> weight, uint64_t kept);

/// Returns a mask that keeps all `elements` elements of a weight.
mask_bits whole_mask(uint64_t elements);
/// Removes from `into`, a mask by element in memory order, the elements that `bits`, a mask in the order (rows,
/// columns), does not keep.
void and_elements(const masked_matrix& m, std::span<const uint8_t> bits, std::span<uint8_t> into);
/// Removes from `into`, a mask by element in memory order, the rows that `bits`, a mask by row, does not keep.
void and_rows(const masked_matrix& m, std::span<const uint8_t> bits, std::span<uint8_t> into);
/// Removes from `into`, a mask by element in memory order, the heads that `bits`, a mask by head, does not keep; a head
/// is a block of columns / heads neighbouring inputs.
void and_heads(const masked_matrix& m, std::span<const uint8_t> bits, uint64_t heads, std::span<uint8_t> into);

/// Returns the mask of a tensor-parallel rank's share of a weight, cut out of `whole`, the mask of the whole weight by
/// element, along the share's `runs`; padding elements are kept (bit 1).
mask_bits share_of_mask(std::span<const uint8_t> whole, std::span<const core::tp_run> runs);

/// True if the mask keeps element number `i`.
[[nodiscard]] inline bool is_kept(std::span<const uint8_t> bits, uint64_t i) {
  return (bits[i / 8] >> i % 8 & 1U) != 0;
}
/// Returns how many of the first `elements` elements the mask keeps.
uint64_t kept_in(std::span<const uint8_t> bits, uint64_t elements);

/// Sets element i of x to 0, for each i below `elements`, if bit number `first` + i of the mask is 0.
void apply_mask(std::byte* x, core::dtype type, uint64_t elements, std::span<const uint8_t> bits, uint64_t first = 0);

}  // namespace troupe::kernels
