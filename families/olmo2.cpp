// OLMo 2: Llama's layers, with the norms of a block after attention and after the MLP instead of before them, and norms
// over all queries and over all keys of a token.
#include "families/all_families.hpp"
#include "families/llama_layers.hpp"

namespace troupe::families {
namespace {

constexpr gguf_name olmo2_in_gguf[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"layers.#.self_attn.q_proj.*", "blk.#.attn_q.*"},
    {"layers.#.self_attn.k_proj.*", "blk.#.attn_k.*"},
    {"layers.#.self_attn.v_proj.*", "blk.#.attn_v.*"},
    {"layers.#.self_attn.o_proj.*", "blk.#.attn_output.*"},
    {"layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight"},
    {"layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight"},
    {"layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight"},
    {"layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight"},
    {"layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight"},
    {"layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight"},
    {"layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight"},
};

constexpr layer_names olmo2_layer_names() {
  layer_names out = llama_layer_names;
  out.attention_norm = out.mlp_norm = {};
  out.query_norm = "self_attn.q_norm";
  out.key_norm = "self_attn.k_norm";
  out.attention_end_norm = "post_attention_layernorm";
  out.mlp_end_norm = "post_feedforward_layernorm";
  return out;
}

constexpr std::string_view olmo2_never_null[] = {"head_dim"};

}  // namespace

constexpr family olmo2{
    .model_type = "olmo2",
    .architecture = "Olmo2ForCausalLM",
    .keys =
        {
            .layers = {"num_hidden_layers", 32},
            .width = {"hidden_size", 4096},
            .heads = {"num_attention_heads", 32},
            .kv_heads = {"num_key_value_heads"},
            .head_width = {"head_dim"},
            .inner = {"intermediate_size", 11008},
            .positions = {"max_position_embeddings", 2048},
            .vocabulary = {"vocab_size", 50304},
            .activation = "hidden_act",
            .usual_activation = "silu",
            .norm_epsilon = {"rms_norm_eps", 1e-5},
            .attention_bias = {"attention_bias", false},
            .padding = {"pad_token_id", 1},
            .attention_dropout = {"attention_dropout", 0},
            .never_null = olmo2_never_null,
        },
    .names = olmo2_layer_names(),
    .norm = norm_kind::rms,
    .layout = core::weight_layout::out_in,
    .order_of_norms = norm_order::last,
    .query_norms = query_norm_span::projection,
    .gguf = {.architecture = "olmo2",
             .names = olmo2_in_gguf,
             .activation = "silu",
             .own_head = gguf_part::required,
             .attention_biases = gguf_part::unknown},
};
static_assert(is_computed(olmo2));

}  // namespace troupe::families
