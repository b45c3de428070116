// The names of Llama's layers in transformers' state dicts and in GGUF files, which several later families use.
#pragma once

#include "families/family.hpp"

namespace troupe::families {

inline constexpr layer_names llama_layer_names{
    .prefix = "model.",
    .embedding = "embed_tokens",
    .blocks = "layers.",
    .attention_norm = "input_layernorm",
    .attention = "self_attn",
    .query = "self_attn.q_proj",
    .key = "self_attn.k_proj",
    .value = "self_attn.v_proj",
    .attention_output = "self_attn.o_proj",
    .mlp_norm = "post_attention_layernorm",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .activation = "mlp.act_fn",
    .down = "mlp.down_proj",
    .final_norm = "norm",
};

inline constexpr gguf_name llama_in_gguf[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight"},
    {"layers.#.self_attn.q_proj.*", "blk.#.attn_q.*", gguf_order::query_rotary, gguf_order::query_rotary},
    {"layers.#.self_attn.k_proj.*", "blk.#.attn_k.*", gguf_order::key_rotary, gguf_order::key_rotary},
    {"layers.#.self_attn.v_proj.*", "blk.#.attn_v.*"},
    {"layers.#.self_attn.o_proj.*", "blk.#.attn_output.*"},
    {"layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight"},
    {"layers.#.mlp.gate_proj.*", "blk.#.ffn_gate.*"},
    {"layers.#.mlp.up_proj.*", "blk.#.ffn_up.*"},
    {"layers.#.mlp.down_proj.*", "blk.#.ffn_down.*"},
};

inline constexpr gguf_row llama_gguf_row{
    .architecture = "llama", .names = llama_in_gguf, .activation = "silu", .divides_frequencies = true};

}  // namespace troupe::families
