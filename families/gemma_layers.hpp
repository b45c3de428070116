// The layers that Gemma 2 and Gemma 3 share: norms before and after attention and the MLP, whose weights are stored as
// differences from 1.
#pragma once

#include "families/llama_layers.hpp"

namespace troupe::families {

constexpr layer_names gemma_layer_names() {
  layer_names out = llama_layer_names;
  out.attention_end_norm = "post_attention_layernorm";
  out.mlp_norm = "pre_feedforward_layernorm";
  out.mlp_end_norm = "post_feedforward_layernorm";
  return out;
}

/// Keys of files of the two families that change no logit that Troupe computes.
inline constexpr unread_key gemma_unread[] = {
    {"hidden_act", key_type::any, "hidden_activation decides"},
    {"sliding_window_size", key_type::any, "sliding_window decides"},
    {"_sliding_window_pattern", key_type::any, "layer_types decides"},
};

inline constexpr fixed_flag gemma_fixed[] = {
    {"use_bidirectional_attention", false, "Attend to later tokens, too."},
};

inline constexpr std::string_view gemma_never_null[] = {"num_key_value_heads", "head_dim"};

inline constexpr gguf_name gemma_in_gguf[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight", gguf_order::raised},
    {"lm_head.weight", "output.weight"},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", gguf_order::raised},
    {"layers.#.self_attn.q_proj.*", "blk.#.attn_q.*"},
    {"layers.#.self_attn.k_proj.*", "blk.#.attn_k.*"},
    {"layers.#.self_attn.v_proj.*", "blk.#.attn_v.*"},
    {"layers.#.self_attn.o_proj.*", "blk.#.attn_output.*"},
    {"layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", gguf_order::raised},
    {"layers.#.pre_feedforward_layernorm.weight", "blk.#.ffn_norm.weight", gguf_order::raised},
    {"layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight"},
    {"layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight"},
    {"layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight"},
    {"layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight", gguf_order::raised},
    // Names that only Gemma 3 has:
    {"layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", gguf_order::raised},
    {"layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", gguf_order::raised},
};

}  // namespace troupe::families
