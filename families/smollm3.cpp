// SmolLM3: Llama's layers, some of them without rotary positions; the layers without positions may have a window of
// attention.
#include "families/all_families.hpp"
#include "families/llama_layers.hpp"

namespace troupe::families {
namespace {

constexpr std::string_view smollm3_never_null[] = {"head_dim"};

}  // namespace

constexpr family smollm3{
    .model_type = "smollm3",
    .architecture = "SmolLM3ForCausalLM",
    .keys =
        {
            .layers = {"num_hidden_layers", 36},
            .width = {"hidden_size", 2048},
            .heads = {"num_attention_heads", 16},
            .kv_heads = {"num_key_value_heads", 4},
            .head_width = {"head_dim"},
            .inner = {"intermediate_size", 11008},
            .positions = {"max_position_embeddings", 32768},
            .vocabulary = {"vocab_size", 128256},
            .window = {"sliding_window"},
            .window_switch = {"use_sliding_window", false},
            .activation = "hidden_act",
            .usual_activation = "silu",
            .norm_epsilon = {"rms_norm_eps", 1e-6},
            .tied = {"tie_word_embeddings", true},
            .attention_bias = {"attention_bias", false},
            .mlp_bias = {"mlp_bias", false},
            .padding = {"pad_token_id", 128004},
            .rotary_base = {"rope_theta", 2e6},
            .rotated_layers = "no_rope_layers",
            .unrotated_every = {"no_rope_layer_interval", 4},
            .attention_dropout = {"attention_dropout", 0},
            .never_null = smollm3_never_null,
        },
    .names = llama_layer_names,
    .norm = norm_kind::rms,
    .layout = core::weight_layout::out_in,
    .order_of_norms = norm_order::last,
    .gguf = {.architecture = "smollm3",
             .names = llama_in_gguf,
             .activation = "silu",
             .attention_biases = gguf_part::unknown,
             .mlp_biases = gguf_part::unknown},
};
static_assert(is_computed(smollm3));

}  // namespace troupe::families
