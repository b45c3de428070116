// Jobs whose micro-batches have so many rows that row tiles of the head (cluster.row_tile_bytes) and of MLPs
// (cluster.mlp_tile_bytes) exist, on models so small that a step takes a blink.
#pragma once

#include <algorithm>

#include "tests/small_job.hpp"

namespace troupe::tests {

/// Models of two blocks and a small width, so that the batch can have many rows, of which tiles consist.
inline const std::string short_gpt2 =
    "model: {model_type: gpt2, n_layer: 2, n_embd: 16, n_head: 2, n_positions: 16, vocab_size: 96, embd_pdrop: 0.1, "
    "attn_pdrop: 0.1, resid_pdrop: 0.1}\n";
inline const std::string short_llama =
    "model: {model_type: llama, num_hidden_layers: 2, hidden_size: 16, num_attention_heads: 2, num_key_value_heads: 1, "
    "intermediate_size: 24, max_position_embeddings: 16, vocab_size: 96}\n";
/// A model with norms behind attention and MLP.
inline const std::string short_gemma2 =
    "model: {model_type: gemma2, num_hidden_layers: 2, hidden_size: 16, num_attention_heads: 2, num_key_value_heads: "
    "2, head_dim: 8, intermediate_size: 24, max_position_embeddings: 16, vocab_size: 96}\n";

/// Settings with 4,800 tokens for each rank and micro-batch: two panels and a part of a third.
inline const settings many_rows = {"train_micro_batch_size_per_gpu=300"};
/// Settings whose tiles have one panel each, in the head and in MLPs.
inline const settings tiles_of_one_panel = {"cluster.row_tile_bytes=1", "cluster.mlp_tile_bytes=1"};

inline small_job job_of_many_rows(const std::string& model) { return small_job(model, made_up_text(60'000)); }

/// Returns the number of units that compute in row tiles; with `tiles_of_one_panel`, each block and the head.
inline int64_t tiled_units(const actors::session& s) {
  return std::ranges::count_if(s.table().units, [](const auto& unit) {
    return std::ranges::any_of(unit.segments, [](const auto& segment) { return segment.is_tiled(); });
  });
}

}  // namespace troupe::tests
