// GPT-2: learned positions, layer norm before attention and before the MLP of a block, one packed projection for
// attention, Conv1D layers, whose weights have the shape (in, out).
#include "families/all_families.hpp"

namespace troupe::families {
namespace {

constexpr fixed_flag gpt2_fixed[] = {
    {"add_cross_attention", false, "Attend to a second sequence."},
};

constexpr unread_key gpt2_unread[] = {
    {"n_ctx", key_type::whole_number, "an old name that n_positions replaced"},
    {"reorder_and_upcast_attn", key_type::flag, "attention has one order here"},
    {"n_special"},
    {"predict_special_tokens"},
    {"summary_type"},
    {"summary_use_proj"},
    {"summary_activation"},
    {"summary_proj_to_labels"},
    {"summary_first_dropout"},
};

constexpr gguf_name gpt2_in_gguf[] = {
    {"wte.weight", "token_embd.weight"},
    {"wpe.weight", "position_embd.weight"},
    {"ln_f.*", "output_norm.*"},
    {"lm_head.weight", "output.weight"},
    {"h.#.ln_1.*", "blk.#.attn_norm.*"},
    {"h.#.attn.c_attn.*", "blk.#.attn_qkv.*", gguf_order::transposed},
    {"h.#.attn.c_proj.*", "blk.#.attn_output.*", gguf_order::transposed},
    {"h.#.ln_2.*", "blk.#.ffn_norm.*"},
    {"h.#.mlp.c_fc.*", "blk.#.ffn_up.*", gguf_order::transposed},
    {"h.#.mlp.c_proj.*", "blk.#.ffn_down.*", gguf_order::transposed},
};

constexpr std::string_view gpt2_never_null[] = {"scale_attn_weights",     "scale_attn_by_inverse_layer_idx",
                                                "add_cross_attention",    "reorder_and_upcast_attn",
                                                "summary_type",           "summary_use_proj",
                                                "summary_proj_to_labels", "summary_first_dropout"};

}  // namespace

constexpr family gpt2{
    .model_type = "gpt2",
    .architecture = "GPT2LMHeadModel",
    .tokenizer_class = "GPT2Tokenizer",
    .keys =
        {
            .layers = {"n_layer", 12, "num_hidden_layers"},
            .width = {"n_embd", 768, "hidden_size"},
            .heads = {"n_head", 12, "num_attention_heads"},
            .inner = {"n_inner"},
            .positions = {"n_positions", 1024, "max_position_embeddings"},
            .vocabulary = {"vocab_size", 50257},
            .activation = "activation_function",
            .usual_activation = "gelu_new",
            .norm_epsilon = {"layer_norm_epsilon", 1e-5},
            .tied = {"tie_word_embeddings", true},
            .attention_bias = {.usual = true},
            .mlp_bias = {.usual = true},
            .scales_scores = {"scale_attn_weights", true},
            .scales_by_layer = {"scale_attn_by_inverse_layer_idx", false},
            .embedding_dropout = {"embd_pdrop", 0.1},
            .attention_dropout = {"attn_pdrop", 0.1},
            .residual_dropout = {"resid_pdrop", 0.1},
            .fixed = gpt2_fixed,
            .unread = gpt2_unread,
            .never_null = gpt2_never_null,
        },
    .names =
        {
            .prefix = "transformer.",
            .embedding = "wte",
            .positions = "wpe",
            .blocks = "h.",
            .attention_norm = "ln_1",
            .attention = "attn",
            .packed = "attn.c_attn",
            .attention_output = "attn.c_proj",
            .mlp_norm = "ln_2",
            .up = "mlp.c_fc",
            .activation = "mlp.act",
            .down = "mlp.c_proj",
            .final_norm = "ln_f",
        },
    .norm = norm_kind::layer,
    .layout = core::weight_layout::in_out,
    .residual_starts_smaller = true,
    .gguf = {"gpt2", gpt2_in_gguf, "gelu_new"},
};
static_assert(is_computed(gpt2));

}  // namespace troupe::families
