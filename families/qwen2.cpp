// Qwen2: Llama's layers with biases in the projections of queries, keys and values. Also Qwen1.5 and Qwen2.5.
#include "families/all_families.hpp"
#include "families/llama_layers.hpp"

namespace troupe::families {
namespace {

constexpr gguf_name qwen2_in_gguf[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight"},
    {"layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight"},
    {"layers.#.self_attn.q_proj.bias", "blk.#.attn_q.bias"},
    {"layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight"},
    {"layers.#.self_attn.k_proj.bias", "blk.#.attn_k.bias"},
    {"layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight"},
    {"layers.#.self_attn.v_proj.bias", "blk.#.attn_v.bias"},
    {"layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight"},
    {"layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight"},
    {"layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight"},
    {"layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight"},
    {"layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight"},
};

constexpr std::string_view qwen2_never_null[] = {"head_dim"};

}  // namespace

constexpr family qwen2{
    .model_type = "qwen2",
    .architecture = "Qwen2ForCausalLM",
    .tokenizer_class = "Qwen2Tokenizer",
    .keys =
        {
            .layers = {"num_hidden_layers", 32},
            .width = {"hidden_size", 4096},
            .heads = {"num_attention_heads", 32},
            .kv_heads = {"num_key_value_heads", 32},
            .head_width = {"head_dim"},
            .inner = {"intermediate_size", 22016},
            .positions = {"max_position_embeddings", 32768},
            .vocabulary = {"vocab_size", 151936},
            .window = {"sliding_window", 4096},
            .window_switch = {"use_sliding_window", false},
            .full_layers = {"max_window_layers", 28},
            .activation = "hidden_act",
            .usual_activation = "silu",
            .norm_epsilon = {"rms_norm_eps", 1e-6},
            .attention_bias = {.usual = true},
            .padding = {"pad_token_id"},
            .attention_dropout = {"attention_dropout", 0},
            .never_null = qwen2_never_null,
        },
    .names = llama_layer_names,
    .norm = norm_kind::rms,
    .layout = core::weight_layout::out_in,
    .attention_output_is_unbiased = true,
    .order_of_norms = norm_order::last,
    .gguf = {"qwen2", qwen2_in_gguf, "silu"},
};
static_assert(is_computed(qwen2));

}  // namespace troupe::families
