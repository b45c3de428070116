// Computes how many rows (tokens) the head and the MLPs process at a time, a tile, if their largest tensors may only
// occupy a certain number of bytes. A tile consists of whole panels, the rows that one product multiplies. Owns the
// size of a panel, on which the bits of results depend; models/layers/tiled_{loss,mlp}.cpp compute the tiles. No Torch
// here.
#pragma once

#include <algorithm>
#include <cstdint>

#include "models/table/model_spec.hpp"

namespace troupe::models {

/// Number of rows (tokens) of a panel: the rows that one product of the head or of an MLP multiplies, with row tiles
/// and without. Sums over more rows are formed panel by panel, in order, so this number must not change. It is large
/// enough that a product's time is spent in its multiplications, and small enough that a panel of logits fits into
/// memory that is too small for all logits of a large vocabulary.
inline constexpr uint64_t panel_rows = 2048;

/// Returns the number of rows of the largest tile that occupies at most `bytes` at `row_bytes` per row, in whole panels
/// and at least one. Returns 0 (no tiles) if all `rows` rows of a micro-batch fit a tile, or if `bytes` is 0, which
/// means no limit.
inline uint64_t tile_rows_of(uint64_t row_bytes, uint64_t rows, uint64_t bytes) {
  if (bytes == 0) return 0;
  const uint64_t tile = std::max<uint64_t>(1, bytes / (panel_rows * row_bytes)) * panel_rows;
  return tile < rows ? tile : 0;
}

/// Returns how many rows the head computes at a time, so that their logits occupy at most `bytes`, except that a tile
/// has at least one panel; 0: no tiles.
inline uint64_t tile_rows_for(const model_spec& spec, uint64_t rows, uint64_t element_bytes, uint64_t bytes) {
  return tile_rows_of(spec.vocabulary * element_bytes, rows, bytes);
}

/// Returns how many rows an MLP computes at a time, so that the inputs of its activation occupy at most `bytes`, except
/// that a tile has at least one panel; 0: no tiles. `inner` is the inner width of the widest MLP of any rank.
inline uint64_t mlp_tile_rows_for(const model_spec& spec, uint64_t inner, uint64_t rows, uint64_t element_bytes,
                                  uint64_t bytes) {
  return tile_rows_of(spec.family->mlp_inputs() * inner * element_bytes, rows, bytes);
}

}  // namespace troupe::models
