// Computes how many rows the head and the MLPs process at a time (a tile), given the bytes that their results may
// occupy. A tile consists of whole panels, the rows that one product multiplies; owns the size of a panel, which the
// bits depend on. Leaves the computation of a tile to models/layers/tiled_{loss,mlp}.cpp. No Torch here.
#pragma once

#include <algorithm>
#include <cstdint>

#include "models/table/model_spec.hpp"

namespace troupe::models {

/// Number of rows of a panel: the rows that one product of the head or of an MLP multiplies, with tiles and without.
/// Sums over more rows are formed panel by panel, in order. Enough rows that a product's time is spent in its
/// multiplications, few enough that a panel of logits fits into memory that is too small for all logits of a large
/// vocabulary.
inline constexpr uint64_t panel_rows = 2048;

/// Returns the rows of the largest tile, in whole panels, that occupies at most `bytes`, at `row_bytes` each, and at
/// least one panel; 0, no tiles, if `rows`, all of a micro-batch on a rank, need none, or without a limit.
inline uint64_t tile_rows_of(uint64_t row_bytes, uint64_t rows, uint64_t bytes) {
  if (bytes == 0) return 0;
  const uint64_t tile = std::max<uint64_t>(1, bytes / (panel_rows * row_bytes)) * panel_rows;
  return tile < rows ? tile : 0;
}

/// Returns the tile rows of the head: logits of a tile occupy at most `bytes`, except in a tile of one panel.
inline uint64_t tile_rows_for(const model_spec& spec, uint64_t rows, uint64_t element_bytes, uint64_t bytes) {
  return tile_rows_of(spec.vocabulary * element_bytes, rows, bytes);
}

/// Returns the tile rows of the MLPs: activation inputs of a tile occupy at most `bytes`, except in a tile of one
/// panel. `inner`: inner width of the widest MLP of any rank.
inline uint64_t mlp_tile_rows_for(const model_spec& spec, uint64_t inner, uint64_t rows, uint64_t element_bytes,
                                  uint64_t bytes) {
  return tile_rows_of(spec.family->mlp_inputs() * inner * element_bytes, rows, bytes);
}

}  // namespace troupe::models
