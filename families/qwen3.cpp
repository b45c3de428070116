// Qwen3: Llama's layers, and a norm of each head of queries and of keys before they are rotated.
#include "families/all_families.hpp"
#include "families/llama_layers.hpp"

namespace troupe::families {
namespace {

constexpr gguf_name qwen3_in_gguf[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight"},
    {"layers.#.self_attn.q_proj.*", "blk.#.attn_q.*"},
    {"layers.#.self_attn.k_proj.*", "blk.#.attn_k.*"},
    {"layers.#.self_attn.v_proj.*", "blk.#.attn_v.*"},
    {"layers.#.self_attn.o_proj.*", "blk.#.attn_output.*"},
    {"layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight"},
    {"layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight"},
    {"layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight"},
    {"layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight"},
    {"layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight"},
    {"layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight"},
};

constexpr layer_names qwen3_layer_names() {
  layer_names out = llama_layer_names;
  out.query_norm = "self_attn.q_norm";
  out.key_norm = "self_attn.k_norm";
  return out;
}

constexpr std::string_view qwen3_never_null[] = {"head_dim"};

}  // namespace

constexpr family qwen3{
    .model_type = "qwen3",
    .architecture = "Qwen3ForCausalLM",
    .tokenizer_class = "Qwen2Tokenizer",
    .keys =
        {
            .layers = {"num_hidden_layers", 32},
            .width = {"hidden_size", 4096},
            .heads = {"num_attention_heads", 32},
            .kv_heads = {"num_key_value_heads", 32},
            .head_width = {"head_dim", 128},
            .inner = {"intermediate_size", 22016},
            .positions = {"max_position_embeddings", 32768},
            .vocabulary = {"vocab_size", 151936},
            .window = {"sliding_window", 4096},
            .window_switch = {"use_sliding_window", false},
            .full_layers = {"max_window_layers", 28},
            .activation = "hidden_act",
            .usual_activation = "silu",
            .norm_epsilon = {"rms_norm_eps", 1e-6},
            .attention_bias = {"attention_bias", false},
            .padding = {"pad_token_id"},
            .attention_dropout = {"attention_dropout", 0},
            .never_null = qwen3_never_null,
        },
    .names = qwen3_layer_names(),
    .norm = norm_kind::rms,
    .layout = core::weight_layout::out_in,
    .order_of_norms = norm_order::last,
    .gguf = {.architecture = "qwen3",
             .names = qwen3_in_gguf,
             .activation = "silu",
             .attention_biases = gguf_part::unknown},
};
static_assert(is_computed(qwen3));

}  // namespace troupe::families
