// Mistral: Llama's layers without biases; a token may attend to a window of the last tokens.
#include "families/all_families.hpp"
#include "families/llama_layers.hpp"

namespace troupe::families {
namespace {

constexpr std::string_view mistral_never_null[] = {"num_key_value_heads"};

}  // namespace

constexpr family mistral{
    .model_type = "mistral",
    .architecture = "MistralForCausalLM",
    .keys =
        {
            .layers = {"num_hidden_layers", 32},
            .width = {"hidden_size", 4096},
            .heads = {"num_attention_heads", 32},
            .kv_heads = {"num_key_value_heads", 8},
            .head_width = {"head_dim"},
            .inner = {"intermediate_size", 14336},
            .positions = {"max_position_embeddings", 131072},
            .vocabulary = {"vocab_size", 32000},
            .window = {"sliding_window", 4096},
            .activation = "hidden_act",
            .usual_activation = "silu",
            .norm_epsilon = {"rms_norm_eps", 1e-6},
            .padding = {"pad_token_id"},
            .attention_dropout = {"attention_dropout", 0},
            .never_null = mistral_never_null,
        },
    .names = llama_layer_names,
    .norm = norm_kind::rms,
    .layout = core::weight_layout::out_in,
    .order_of_norms = norm_order::last,
    .gguf = llama_gguf_row,
};
static_assert(is_computed(mistral));

}  // namespace troupe::families
