// Gemma 3, the text model: Gemma 2's layers with norms of each head of queries and keys instead of the soft cap of
// scores, a window in five of six layers, and rotary positions with another base in the layers with a window.
#include "families/all_families.hpp"
#include "families/gemma_layers.hpp"

namespace troupe::families {
namespace {

constexpr gguf_number gemma3_numbers[] = {
    {"final_logit_softcapping", &config_keys::logit_soft_cap, 0},
};

constexpr layer_names gemma3_layer_names() {
  layer_names out = gemma_layer_names();
  out.query_norm = "self_attn.q_norm";
  out.key_norm = "self_attn.k_norm";
  return out;
}

}  // namespace

constexpr family gemma3{
    .model_type = "gemma3_text",
    .architecture = "Gemma3ForCausalLM",
    .keys =
        {
            .layers = {"num_hidden_layers", 26},
            .width = {"hidden_size", 2304},
            .heads = {"num_attention_heads", 8},
            .kv_heads = {"num_key_value_heads", 4},
            .head_width = {"head_dim", 256},
            .inner = {"intermediate_size", 9216},
            .positions = {"max_position_embeddings", 131072},
            .vocabulary = {"vocab_size", 262208},
            .window = {"sliding_window", 4096},
            .full_every = {"sliding_window_pattern", 6},
            .activation = "hidden_activation",
            .usual_activation = "gelu_pytorch_tanh",
            .norm_epsilon = {"rms_norm_eps", 1e-6},
            .tied = {"tie_word_embeddings", true},
            .attention_bias = {"attention_bias", false},
            .padding = {"pad_token_id", 0},
            .score_width = {"query_pre_attn_scalar", 256},
            .logit_soft_cap = {"final_logit_softcapping"},
            .rotary_base = {"rope_theta", 1e6},
            .local_rotary_base = {"rope_local_base_freq", 10000},
            .attention_dropout = {"attention_dropout", 0},
            .fixed = gemma_fixed,
            .unread = gemma_unread,
            .never_null = gemma_never_null,
        },
    .names = gemma3_layer_names(),
    .norm = norm_kind::rms,
    .layout = core::weight_layout::out_in,
    .order_of_norms = norm_order::last,
    .norm_shift = 1,
    .embedding_grows_with_width = true,
    .gguf = {.architecture = "gemma3",
             .names = gemma_in_gguf,
             .activation = "gelu_pytorch_tanh",
             .numbers = gemma3_numbers,
             .stores_window = true,
             .wide_blocks = 62,
             .attention_biases = gguf_part::unknown},
};
static_assert(is_computed(gemma3));

}  // namespace troupe::families
