// How many rows the head and the MLPs process at a time, given the bytes that their results may occupy. Owns the panels
// that a tile consists of, whose size the bits depend on; leaves the computation of a tile to
// models/layers/tiled_{loss,mlp}.cpp. No Torch here.
#pragma once

#include <algorithm>
#include <cstdint>

#include "models/table/model_spec.hpp"

namespace troupe::models {

/// Rows that the head and MLPs multiply at once, in tiles and without them: sums over more rows are formed panel by
/// panel, in order. Enough that a product's time is spent in its multiplications, few enough that a panel of a large
/// vocabulary's logits fits into memory that all of the logits do not fit into.
inline constexpr uint64_t panel_rows = 2048;

/// Returns the rows of the largest tile, in whole panels, that takes at most `bytes`, at `row_bytes` each, and at least
/// one panel; 0, no tiles, if `rows`, all of a micro-batch on a rank, need none, or without a limit.
inline uint64_t tile_rows_of(uint64_t row_bytes, uint64_t rows, uint64_t bytes) {
  if (bytes == 0) return 0;
  const uint64_t tile = std::max<uint64_t>(1, bytes / (panel_rows * row_bytes)) * panel_rows;
  return tile < rows ? tile : 0;
}

/// Returns the tile rows of the head, whose logits occupy the bytes.
inline uint64_t tile_rows_for(const model_spec& spec, uint64_t rows, uint64_t element_bytes, uint64_t bytes) {
  return tile_rows_of(spec.vocabulary * element_bytes, rows, bytes);
}

/// Returns the tile rows of an MLP, whose activation inputs occupy the bytes; a rank has `inner` of its widths.
inline uint64_t mlp_tile_rows_for(const model_spec& spec, uint64_t inner, uint64_t rows, uint64_t element_bytes,
                                  uint64_t bytes) {
  return tile_rows_of(spec.family->mlp_inputs() * inner * element_bytes, rows, bytes);
}

}  // namespace troupe::models
