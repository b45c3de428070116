// Phi-3 and Phi-4: Llama's layers with one projection of queries, keys and values and one of gate and values; a part of
// a head may be rotated.
#include "families/all_families.hpp"
#include "families/llama_layers.hpp"

namespace troupe::families {
namespace {

constexpr fixed_flag phi3_fixed[] = {
    {"attention_bias", false, "Biases in the attention's matrices."},
    {"mlp_bias", false, "Biases in the MLP's matrices."},
    {"lm_head_bias", false, "A bias in the head."},
};

constexpr unread_key phi3_unread[] = {
    {"embd_pdrop", key_type::any, "transformers drops no embeddings of this family"},
    {"full_attn_mod"},
    {"interpolate_factor"},
};

constexpr std::string_view phi3_longrope[] = {"su", "yarn"};
constexpr std::string_view phi3_scalings[] = {"default", "longrope"};

constexpr gguf_name phi3_in_gguf[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight"},
    {"layers.#.self_attn.qkv_proj.weight", "blk.#.attn_qkv.weight"},
    {"layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight"},
    {"layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight"},
    {"layers.#.mlp.gate_up_proj.weight", "blk.#.ffn_up.weight"},
    {"layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight"},
};

constexpr layer_names phi3_layer_names() {
  layer_names out = llama_layer_names;
  out.query = out.key = out.value = out.gate = out.up = {};
  out.packed = "self_attn.qkv_proj";
  out.gate_and_up = "mlp.gate_up_proj";
  out.activation = "mlp.activation_fn";
  return out;
}

constexpr std::string_view phi3_never_null[] = {"head_dim", "original_max_position_embeddings", "embd_pdrop"};

}  // namespace

constexpr family phi3{
    .model_type = "phi3",
    .architecture = "Phi3ForCausalLM",
    .keys =
        {
            .layers = {"num_hidden_layers", 32},
            .width = {"hidden_size", 3072},
            .heads = {"num_attention_heads", 32},
            .kv_heads = {"num_key_value_heads"},
            .head_width = {"head_dim"},
            .inner = {"intermediate_size", 8192},
            .positions = {"max_position_embeddings", 4096},
            .vocabulary = {"vocab_size", 32064},
            .window = {"sliding_window"},
            .all_have_window = true,
            .activation = "hidden_act",
            .usual_activation = "silu",
            .norm_epsilon = {"rms_norm_eps", 1e-5},
            .padding = {"pad_token_id", 32000},
            .rotary_share = {"partial_rotary_factor", 1},
            .original_positions = 4096,
            .longrope_names = phi3_longrope,
            .scalings = phi3_scalings,
            .attention_dropout = {"attention_dropout", 0},
            .residual_dropout = {"resid_pdrop", 0},
            .fixed = phi3_fixed,
            .unread = phi3_unread,
            .never_null = phi3_never_null,
        },
    .names = phi3_layer_names(),
    .norm = norm_kind::rms,
    .layout = core::weight_layout::out_in,
    .order_of_norms = norm_order::last,
    .attention_output_is_first = true,
    .gguf = {.architecture = "phi3", .names = phi3_in_gguf, .activation = "silu", .divides_frequencies = true},
};
static_assert(is_computed(phi3));

}  // namespace troupe::families
