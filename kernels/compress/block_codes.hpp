// Splits blocks of 32 elements into the scale and offset of a block and its codes, and packs a block from codes that a
// caller chose one by one. Owns no rounding; leaves rounding and layouts to block_formats.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/compress/block_formats.hpp"

namespace troupe::kernels {

/// The values that a block can represent: scale * q + offset for whole q in [low, high].
struct block_grid {
  float scale = 0, offset = 0;
  int32_t low = 0, high = 0;
};

/// True if a block of the format has 32 elements, which share one scale (and offset); blocks of 256 elements have
/// several scales.
constexpr bool has_block_grid(block_format f) { return elements_of(f) == 32; }

/// Returns the grid of a block that quantise_blocks() wrote.
block_grid grid_of(block_format f, const std::byte* block);

/// Writes the bytes of a block with this grid, whose scale and offset are values of fp16, and with these 32 codes, each
/// within the grid.
void pack_block(block_format f, const block_grid& grid, std::span<const int16_t, 32> q, std::byte* out);

}  // namespace troupe::kernels
