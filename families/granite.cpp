// Granite 3: Llama's layers with factors of the embedding, of attention scores and of the outputs that are added to the
// residual path, and logits that are divided by a number.
#include "families/all_families.hpp"
#include "families/llama_layers.hpp"

namespace troupe::families {
namespace {

constexpr gguf_number granite_numbers[] = {
    {"attention.scale", &config_keys::attention_scale},
    {"embedding_scale", &config_keys::embedding_scale},
    {"residual_scale", &config_keys::residual_scale},
    {"logit_scale", &config_keys::logit_divisor},
};

constexpr std::string_view granite_never_null[] = {"head_dim"};

}  // namespace

constexpr family granite{
    .model_type = "granite",
    .architecture = "GraniteForCausalLM",
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
            .padding = {"pad_token_id"},
            .embedding_scale = {"embedding_multiplier", 1},
            .residual_scale = {"residual_multiplier", 1},
            .attention_scale = {"attention_multiplier", 1},
            .logit_divisor = {"logits_scaling", 1},
            .attention_dropout = {"attention_dropout", 0},
            .never_null = granite_never_null,
        },
    .names = llama_layer_names,
    .norm = norm_kind::rms,
    .layout = core::weight_layout::out_in,
    .order_of_norms = norm_order::last,
    .gguf = {"granite", llama_in_gguf, "silu", granite_numbers},
};
static_assert(is_computed(granite));

}  // namespace troupe::families
