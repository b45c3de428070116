// Blocks of 32 elements taken apart: the scale and offset that a block stands for, and its bytes from codes that
// somebody chose one by one. Owns no rounding; that, and the layouts, are block_formats.hpp's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/compress/block_formats.hpp"

namespace troupe::kernels {

/// The values of a block: scale * q + offset for whole q in [low, high].
struct block_grid {
  float scale = 0, offset = 0;
  int32_t low = 0, high = 0;
};

/// Whether the format is one scale (and offset) for 32 elements.
constexpr bool has_block_grid(block_format f) { return elements_of(f) == 32; }

/// Of a block as quantise_blocks() wrote it.
block_grid grid_of(block_format f, const std::byte* block);

/// The bytes of a block of that grid, whose scale and offset are values of fp16; 32 codes, each within the grid.
void pack_block(block_format f, const block_grid& grid, std::span<const int16_t, 32> q, std::byte* out);

}  // namespace troupe::kernels
