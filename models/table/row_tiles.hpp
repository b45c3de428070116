// How many rows of logits the head has at a time, out of the bytes that they may take. Owns the panels that a tile is
// made of, which are part of the bits; what a tile computes is models/layers/tiled_loss.cpp's. No Torch here.
#pragma once

#include <algorithm>
#include <cstdint>

#include "models/table/model_spec.hpp"

namespace troupe::models {

/// Rows that the head multiplies at once, in tiles and without them: sums over more rows are formed panel by panel, in
/// order. Enough that a product's time is in its multiplications, few enough that a panel of a large vocabulary's
/// logits fits where all of them do not.
inline constexpr uint64_t panel_rows = 2048;

/// Rows of the largest tile, in whole panels, whose logits take at most `bytes`, and at least one panel; 0, no tiles,
/// where `rows`, all of a micro-batch on a rank, need none, or without a limit.
inline uint64_t tile_rows_for(const model_spec& spec, uint64_t rows, uint64_t element_bytes, uint64_t bytes) {
  if (bytes == 0) return 0;
  const uint64_t panel_bytes = panel_rows * spec.vocabulary * element_bytes;
  const uint64_t tile = std::max<uint64_t>(1, bytes / panel_bytes) * panel_rows;
  return tile < rows ? tile : 0;
}

}  // namespace troupe::models
