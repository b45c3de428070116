// How many rows the head and the MLPs have at a time, out of the bytes that what they make of them may take. Owns the
// panels that a tile is made of, which are part of the bits; what a tile computes is
// models/layers/tiled_{loss,mlp}.cpp's. No Torch here.
#pragma once

#include <algorithm>
#include <cstdint>

#include "models/table/model_spec.hpp"

namespace troupe::models {

/// Rows that the head and MLPs multiply at once, in tiles and without them: sums over more rows are formed panel by
/// panel, in order. Enough that a product's time is in its multiplications, few enough that a panel of a large
/// vocabulary's logits fits where all of them do not.
inline constexpr uint64_t panel_rows = 2048;

/// Rows of the largest tile, in whole panels, that takes at most `bytes`, at `row_bytes` each, and at least one panel;
/// 0, no tiles, where `rows`, all of a micro-batch on a rank, need none, or without a limit.
inline uint64_t tile_rows_of(uint64_t row_bytes, uint64_t rows, uint64_t bytes) {
  if (bytes == 0) return 0;
  const uint64_t tile = std::max<uint64_t>(1, bytes / (panel_rows * row_bytes)) * panel_rows;
  return tile < rows ? tile : 0;
}

/// Of the head, whose logits take the bytes.
inline uint64_t tile_rows_for(const model_spec& spec, uint64_t rows, uint64_t element_bytes, uint64_t bytes) {
  return tile_rows_of(spec.vocabulary * element_bytes, rows, bytes);
}

/// Linear layers in front of an MLP's activation: of Llama's gate and up.
inline uint64_t mlp_inputs(family kind) { return kind == family::llama ? 2 : 1; }

/// Of an MLP, what is in front of whose activation takes the bytes; `inner` of its widths are a rank's.
inline uint64_t mlp_tile_rows_for(const model_spec& spec, uint64_t inner, uint64_t rows, uint64_t element_bytes,
                                  uint64_t bytes) {
  return tile_rows_of(mlp_inputs(spec.kind) * inner * element_bytes, rows, bytes);
}

}  // namespace troupe::models
