// The layers of BERT in transformers' state dicts, and its keys of config.json, which RoBERTa uses as well.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "families/family.hpp"

namespace troupe::families {

inline constexpr layer_names bert_layer_names{
    .embedding = "embeddings.word_embeddings",
    .positions = "embeddings.position_embeddings",
    .token_types = "embeddings.token_type_embeddings",
    .embedding_norm = "embeddings.LayerNorm",
    .blocks = "encoder.layer.",
    .attention = "attention.self",
    .query = "attention.self.query",
    .key = "attention.self.key",
    .value = "attention.self.value",
    .attention_output = "attention.output.dense",
    .up = "intermediate.dense",
    .activation = "intermediate.intermediate_act_fn",
    .down = "output.dense",
    .attention_sum_norm = "attention.output.LayerNorm",
    .mlp_sum_norm = "output.LayerNorm",
};

inline constexpr fixed_flag bert_fixed[] = {
    {"is_decoder", false, "Attend to the tokens before a token alone."},
    {"add_cross_attention", false, "Attend to a second sequence."},
    {"tie_word_embeddings", true, "One matrix for embedding and head."},
};

inline constexpr fixed_text bert_fixed_texts[] = {
    {"position_embedding_type", "absolute", "How positions enter: by embeddings of their own."},
};

inline constexpr std::string_view bert_never_null[] = {"is_decoder", "add_cross_attention", "tie_word_embeddings",
                                                       "chunk_size_feed_forward"};

/// Returns the keys of a family with BERT's layers. A config.json without the keys describes a vocabulary of
/// `vocabulary` tokens with the padding token `padding`. `unread` are keys of the family that Troupe does not read.
constexpr config_keys bert_keys(uint32_t vocabulary, uint32_t padding, std::span<const unread_key> unread = {}) {
  return {
      .layers = {"num_hidden_layers", 12},
      .width = {"hidden_size", 768},
      .heads = {"num_attention_heads", 12},
      .inner = {"intermediate_size", 3072},
      .positions = {"max_position_embeddings", 512},
      .vocabulary = {"vocab_size", vocabulary},
      .token_types = {"type_vocab_size", 2},
      .activation = "hidden_act",
      .usual_activation = "gelu",
      .norm_epsilon = {"layer_norm_eps", 1e-12},
      .tied = {.usual = true},
      .attention_bias = {.usual = true},
      .mlp_bias = {.usual = true},
      .padding = {"pad_token_id", padding},
      .embedding_dropout = {"hidden_dropout_prob", 0.1},
      .attention_dropout = {"attention_probs_dropout_prob", 0.1},
      .residual_dropout = {"hidden_dropout_prob", 0.1},
      .fixed = bert_fixed,
      .fixed_texts = bert_fixed_texts,
      .unread = unread,
      .never_null = bert_never_null,
  };
}

}  // namespace troupe::families
