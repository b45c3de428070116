// GPT-NeoX and Pythia: layer norms, one projection of queries, keys and values in the order of heads, a quarter of each
// head rotated, attention and MLP that read the same residual path.
#include "families/all_families.hpp"

namespace troupe::families {
namespace {

constexpr gguf_name gpt_neox_in_gguf[] = {
    {"embed_in.weight", "token_embd.weight"},
    {"final_layer_norm.*", "output_norm.*"},
    {"lm_head.weight", "output.weight"},
    {"layers.#.input_layernorm.*", "blk.#.attn_norm.*"},
    {"layers.#.attention.query_key_value.*", "blk.#.attn_qkv.*", gguf_order::by_head, gguf_order::by_head},
    {"layers.#.attention.dense.*", "blk.#.attn_output.*"},
    {"layers.#.post_attention_layernorm.*", "blk.#.ffn_norm.*"},
    {"layers.#.mlp.dense_h_to_4h.*", "blk.#.ffn_up.*"},
    {"layers.#.mlp.dense_4h_to_h.*", "blk.#.ffn_down.*"},
};

constexpr std::string_view gpt_neox_never_null[] = {"is_decoder", "classifier_dropout"};

}  // namespace

constexpr family gpt_neox{
    .model_type = "gpt_neox",
    .architecture = "GPTNeoXForCausalLM",
    .tokenizer_class = "GPTNeoXTokenizer",
    .keys =
        {
            .layers = {"num_hidden_layers", 44},
            .width = {"hidden_size", 6144},
            .heads = {"num_attention_heads", 64},
            .inner = {"intermediate_size", 24576},
            .positions = {"max_position_embeddings", 2048},
            .vocabulary = {"vocab_size", 50432},
            .activation = "hidden_act",
            .usual_activation = "gelu",
            .norm_epsilon = {"layer_norm_eps", 1e-5},
            .attention_bias = {"attention_bias", true},
            .mlp_bias = {.usual = true},
            .parallel_residual = {"use_parallel_residual", true},
            .rotary_base = {"rotary_emb_base", 10000},
            .rotary_share = {"rotary_pct", 0.25},
            .embedding_dropout = {"hidden_dropout", 0},
            .attention_dropout = {"attention_dropout", 0},
            .residual_dropout = {"hidden_dropout", 0},
            .never_null = gpt_neox_never_null,
        },
    .names =
        {
            .prefix = "gpt_neox.",
            .embedding = "embed_in",
            .blocks = "layers.",
            .attention_norm = "input_layernorm",
            .attention = "attention",
            .packed = "attention.query_key_value",
            .attention_output = "attention.dense",
            .mlp_norm = "post_attention_layernorm",
            .up = "mlp.dense_h_to_4h",
            .activation = "mlp.act",
            .down = "mlp.dense_4h_to_h",
            .final_norm = "final_layer_norm",
            .head = "embed_out",
        },
    .norm = norm_kind::layer,
    .layout = core::weight_layout::out_in,
    .order_of_norms = norm_order::first,
    .packed_as = packing::by_head,
    .gguf = {.architecture = "gptneox",
             .names = gpt_neox_in_gguf,
             .activation = "gelu",
             .own_head = gguf_part::required,
             .attention_biases = gguf_part::required},
};
static_assert(is_computed(gpt_neox));

}  // namespace troupe::families
