// Gemma 2: norms before and after attention and the MLP, soft caps of scores and of logits, a window in every other
// layer, an embedding that is multiplied by the root of the width.
#include <iterator>

#include "families/all_families.hpp"
#include "families/gemma_layers.hpp"

namespace troupe::families {
namespace {

constexpr gguf_number gemma2_numbers[] = {
    {"attn_logit_softcapping", &config_keys::attention_soft_cap, 50},
    {"final_logit_softcapping", &config_keys::logit_soft_cap, 30},
};

}  // namespace

constexpr family gemma2{
    .model_type = "gemma2",
    .architecture = "Gemma2ForCausalLM",
    .keys =
        {
            .layers = {"num_hidden_layers", 26},
            .width = {"hidden_size", 2304},
            .heads = {"num_attention_heads", 8},
            .kv_heads = {"num_key_value_heads", 4},
            .head_width = {"head_dim", 256},
            .inner = {"intermediate_size", 9216},
            .positions = {"max_position_embeddings", 8192},
            .vocabulary = {"vocab_size", 256000},
            .window = {"sliding_window", 4096},
            .full_every = {.usual = 2},
            .activation = "hidden_activation",
            .usual_activation = "gelu_pytorch_tanh",
            .norm_epsilon = {"rms_norm_eps", 1e-6},
            .tied = {"tie_word_embeddings", true},
            .attention_bias = {"attention_bias", false},
            .padding = {"pad_token_id", 0},
            .score_width = {"query_pre_attn_scalar", 256},
            .attention_soft_cap = {"attn_logit_softcapping", 50},
            .logit_soft_cap = {"final_logit_softcapping", 30},
            .attention_dropout = {"attention_dropout", 0},
            .fixed = gemma_fixed,
            .unread = gemma_unread,
            .never_null = gemma_never_null,
        },
    .names = gemma_layer_names(),
    .norm = norm_kind::rms,
    .layout = core::weight_layout::out_in,
    .order_of_norms = norm_order::last,
    .norm_shift = 1,
    .embedding_grows_with_width = true,
    .gguf = {.architecture = "gemma2",
             .names = std::span(gemma_in_gguf).first(std::size(gemma_in_gguf) - 2),
             .activation = "gelu_pytorch_tanh",
             .numbers = gemma2_numbers,
             .stores_window = true,
             .wide_blocks = 46,
             .own_head = gguf_part::unknown,
             .attention_biases = gguf_part::unknown},
};
static_assert(is_computed(gemma2));

}  // namespace troupe::families
