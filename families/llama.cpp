// Llama: rotary positions, RMS norm before attention and before the MLP of a block, grouped queries, a gated MLP.
#include "families/rows.hpp"

namespace troupe::families {
namespace {

constexpr gguf_name llama_in_gguf[] = {
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

}  // namespace

constexpr family llama{
    .model_type = "llama",
    .architecture = "LlamaForCausalLM",
    .keys =
        {
            .layers = {"num_hidden_layers", 32},
            .width = {"hidden_size", 4096},
            .heads = {"num_attention_heads", 32},
            .kv_heads = {"num_key_value_heads"},
            .head_width = {"head_dim"},
            .inner = {"intermediate_size", 11008},
            .positions = {"max_position_embeddings", 2048},
            .vocabulary = {"vocab_size", 32000},
            .activation = "hidden_act",
            .usual_activation = "silu",
            .norm_epsilon = {"rms_norm_eps", 1e-6},
            .attention_bias = {"attention_bias", false},
            .mlp_bias = {"mlp_bias", false},
            .attention_dropout = {"attention_dropout", 0},
        },
    .names =
        {
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
        },
    .norm = norm_kind::rms,
    .layout = core::weight_layout::out_in,
    .norms_come_last = true,
    .gguf = {"llama", llama_in_gguf, "silu"},
};
static_assert(is_computed(llama));

}  // namespace troupe::families
