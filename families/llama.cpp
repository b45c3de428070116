// Llama: rotary positions, RMS norm before attention and before the MLP of a block, grouped queries, a gated MLP.
#include "families/all_families.hpp"
#include "families/llama_layers.hpp"

namespace troupe::families {
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
            .padding = {"pad_token_id"},
            .attention_dropout = {"attention_dropout", 0},
        },
    .names = llama_layer_names,
    .norm = norm_kind::rms,
    .layout = core::weight_layout::out_in,
    .order_of_norms = norm_order::last,
    .gguf = llama_gguf_row,
};
static_assert(is_computed(llama));

}  // namespace troupe::families
