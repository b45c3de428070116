// A model family as data: its keys in config.json, its layers and their names, its names in GGUF files. One file of
// this folder holds each family's row; code outside of this folder reads rows and names no family. Does not
// depend on Torch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/layer_table.hpp"

namespace troupe::families {

/// Key of a size in config.json. An empty name: the family has no such key.
struct size_key {
  std::string_view name = {};
  uint32_t usual = 0;  ///< transformers' default for the key; 0: the default follows from other sizes of the model
  std::string_view alias = {};  ///< another name of the key that transformers accepts
};

/// Key of a number in config.json. An empty name: the family has no such key, and the number is always `usual`.
struct number_key {
  std::string_view name = {};
  double usual = 0;
};

/// Key of a flag in config.json. An empty name: the family has no such key, and the flag is always `usual`.
struct flag_key {
  std::string_view name = {};
  bool usual = false;
};

/// A flag of config.json that must have the value `value`, because Troupe does not build models with the other value.
struct fixed_flag {
  std::string_view name;
  bool value;
  std::string_view meaning;  ///< effect of the flag as a sentence, for the documentation of configuration keys
};

/// A text of config.json that must have the value `value`, because Troupe does not build models with another value.
struct fixed_text {
  std::string_view name, value;
  std::string_view meaning;  ///< what the key chooses, as a sentence, for the documentation of configuration keys
};

enum class key_type : uint8_t { any, whole_number, flag };  ///< kind of values that a key of config.json accepts

/// A key of config.json that Troupe does not read, because it changes no logit that Troupe computes. An empty reason:
/// the key describes the model to other programs.
struct unread_key {
  std::string_view name;
  key_type type = key_type::any;
  std::string_view reason = {};
};

/// Key of the padding token in config.json, and the token of a model whose config.json lacks the key; a model whose
/// vocabulary is too small for that token has none.
struct padding_key {
  std::string_view name = {};
  std::optional<uint32_t> usual = {};
};

/// The keys of config.json that a family's sizes and choices are read from.
struct config_keys {
  size_key layers = {}, width = {}, heads = {};
  size_key kv_heads = {};    ///< key of the number of key-value heads; no key, or `usual` 0: equal to `heads`
  size_key head_width = {};  ///< key of the width of a head; no key, or `usual` 0: width / heads
  size_key inner = {};       ///< key of the inner width of the MLP; `usual` 0: 4 x width
  size_key positions = {}, vocabulary = {};
  size_key token_types = {};  ///< key of the number of types that a token may have; no key: tokens have no types
  /// Key of the number of tokens that a token attends to, including itself; null in config.json: it attends to all.
  size_key window = {};
  flag_key window_switch = {};  ///< key of a flag that switches the window on; no key: the window is always on
  /// Key of the number of first layers without a window, if the key `layer_types` does not name each layer's kind of
  /// attention; no key: all layers have it.
  size_key full_layers = {};
  /// Key of a number n: every n-th layer has no window, if `layer_types` does not name the layers' kinds. No name and
  /// 0: all layers have the window.
  size_key full_every = {};
  /// True: all layers have the window, whatever the key `layer_types` says, which transformers does not read for the
  /// family.
  bool all_have_window = false;
  /// Key of the activation function in config.json, and transformers' name of the function that is its default.
  std::string_view activation = {}, usual_activation = {};
  number_key norm_epsilon = {};
  flag_key tied = {"tie_word_embeddings", false};
  flag_key attention_bias = {}, mlp_bias = {};
  /// Key of the token whose embedding begins as 0 and gets no gradient from the embedding: nn.Embedding's padding_idx.
  /// A negative number counts from the end of the vocabulary. No key: all embeddings are trained alike.
  padding_key padding = {};
  /// Key of a flag: attention and MLP read the same residual path, and their results are added to it together.
  flag_key parallel_residual = {};
  /// Keys of factors: embedding_scale of the embedding's vectors, residual_scale of the outputs of attention and MLP
  /// before they are added to the residual path, attention_scale of the attention scores (`usual` 0: 1 / sqrt(head
  /// width)). logit_divisor: key of the number by which the head's products are divided.
  number_key embedding_scale = {.usual = 1}, residual_scale = {.usual = 1}, attention_scale = {};
  number_key logit_divisor = {.usual = 1};
  number_key score_width = {};  ///< key of a number w: attention scores have the factor 1 / sqrt(w)
  /// Keys of two flags: scales_scores of the usual factor of attention scores, 1 / sqrt(head width), without which it
  /// is 1; scales_by_layer of a further factor, 1 / (b + 1) in block b. No keys: a family that states neither.
  flag_key scales_scores = {.usual = true}, scales_by_layer = {};
  /// Keys of the soft caps of attention scores and of logits; null in config.json, or `usual` 0: none.
  number_key attention_soft_cap = {}, logit_soft_cap = {};
  number_key rotary_base = {"rope_theta", 10000};  ///< key of the base of rotary positions
  /// key of the base in layers with a window; no key: the same base as in the other layers
  number_key local_rotary_base = {};
  number_key rotary_share = {.usual = 1};  ///< key of the part of a head's elements that are rotated
  /// Positions before scaling if config.json lacks the key original_max_position_embeddings; 0: the scaling states
  /// them, or they are the model's number of positions.
  uint32_t original_positions = 0;
  /// Key of a list with 1 for each layer with rotary positions and 0 for each layer without. If config.json lacks the
  /// list, every n-th layer has no positions, where n is the value of `unrotated_every`. Layers without positions have
  /// the window if the model has one. No key: all layers have positions.
  std::string_view rotated_layers = {};
  size_key unrotated_every = {};
  std::span<const std::string_view> longrope_names = {};  ///< other names of the scaling longrope in older files
  /// Names of the scalings of rotary positions that transformers accepts for the family; empty: all.
  std::span<const std::string_view> scalings = {};
  number_key embedding_dropout = {}, attention_dropout = {}, residual_dropout = {};
  std::span<const fixed_flag> fixed = {};
  std::span<const fixed_text> fixed_texts = {};
  std::span<const unread_key> unread = {};
  /// Keys, besides those that every family must not have null in, whose null transformers refuses for the family. A
  /// null of a size that follows from others (`kv_heads`, `head_width`) is read for families without the key here.
  std::span<const std::string_view> never_null = {};
};

/// The names of a model's layers, as in transformers' state dicts.
struct layer_names {
  std::string_view prefix = {};          ///< prefix of all parameter names except those of the head
  std::string_view embedding = {};       ///< name of the token embedding
  std::string_view positions = {};       ///< name of the learned positions; empty: rotary positions
  std::string_view token_types = {};     ///< name of the embedding of a token's type; empty: there is none
  std::string_view embedding_norm = {};  ///< name of the norm of the embeddings' sum; empty: there is none
  std::string_view blocks = {};          ///< beginning of a block's names, before the block's number and a dot
  std::string_view attention_norm = {};  ///< name of the norm before attention; empty: there is none
  std::string_view attention = {};
  std::string_view packed = {};  ///< name of one linear layer of queries, keys and values; empty: three layers
  std::string_view query = {}, key = {}, value = {};
  /// Names of the norms of queries and of keys, before they are rotated; empty: there are none.
  std::string_view query_norm = {}, key_norm = {};
  std::string_view attention_output = {};
  /// Name of the norm of attention's output, which is applied before the output is added to the residual path; empty:
  /// there is none.
  std::string_view attention_end_norm = {};
  std::string_view mlp_norm = {};  ///< name of the norm before the MLP; empty: there is none
  /// name of the norm of the MLP's output before it is added to the residual path; empty: none
  std::string_view mlp_end_norm = {};
  std::string_view gate = {};  ///< name of the MLP's gate, if it is a layer of its own
  /// Name of one linear layer of the MLP's gate and of the values that it multiplies; empty: they have layers of their
  /// own, or the MLP has no gate.
  std::string_view gate_and_up = {};
  std::string_view up = {}, activation = {}, down = {};
  /// Names of the norms of the residual path after attention, and after the MLP, has been added to it; empty: there are
  /// none.
  std::string_view attention_sum_norm = {}, mlp_sum_norm = {};
  std::string_view final_norm = {};
  /// Whole name of the head's last linear layer, and of its bias; an empty name of the bias: there is none.
  std::string_view head = "lm_head", head_bias = {};
  /// Whole names of a linear layer, with an activation, and of a norm before the head's last layer; empty: none.
  std::string_view head_transform = {}, head_norm = {};
};

enum class norm_kind : uint8_t {  ///< kind of the norms before attention, MLP and head
  layer,                          ///< layer norm: mean and variance, with a bias
  rms                             ///< RMS norm: root mean square, without a bias
};

/// The elements over which one norm of queries or of keys is formed.
enum class query_norm_span : uint8_t {
  head,       ///< a head's elements; all heads have the same weights
  projection  ///< all heads of a token together
};

/// Order of the outputs of one linear layer of queries, keys and values.
enum class packing : uint8_t {
  side_by_side,  ///< all queries, all keys, all values
  by_head        ///< for each head its query, its key and its value; there are as many key-value heads as heads
};

/// Position of a block's norms among its parameters in Hugging Face's files.
enum class norm_order : uint8_t {
  beside,  ///< each norm before the layers that read it
  first,   ///< before all other parameters of the block
  last     ///< after all other parameters of the block
};

/// How the element order of a matrix in a GGUF file differs from that of a model's parameter.
enum class gguf_order : uint8_t {
  same,
  transposed,  ///< the GGUF file stores (out, in), the model (in, out)
  /// Rows within a head of a query matrix: the model stores the first elements of all rotated pairs, then the second
  /// elements; the GGUF file stores the two elements of each pair side by side.
  query_rotary,
  key_rotary,  ///< rows of a key matrix, in the order of query_rotary within each key-value head
  raised,      ///< same order, but the GGUF file stores each element plus 1
  by_head,     ///< rows in the order packing::by_head in the model, packing::side_by_side in the GGUF file
};

/// A pair of patterns of parameter names: in the model, without the family's prefix, and in GGUF files. `#` matches the
/// number of a block, a final `*` matches `weight` or `bias`.
struct gguf_name {
  std::string_view ours, theirs;
  gguf_order weight = gguf_order::same, bias = gguf_order::same;
};

/// A number of config.json that GGUF files of a family also store: its metadata key without the architecture's name,
/// and its key in config.json.
struct gguf_number {
  std::string_view theirs;
  number_key config_keys::*ours;
  /// llama.cpp's value if a file lacks the key, where 0 means that the model has none; below 0: every file has the key
  double absent = -1;
};

/// Tells which models of an architecture llama.cpp loads, by a part that a model may have.
enum class gguf_part : uint8_t {
  optional,  ///< models with the part and models without it
  required,  ///< only models with the part
  unknown    ///< only models without the part
};

struct gguf_row {                    ///< names of one family in GGUF files
  std::string_view architecture;     ///< value of the file's key `general.architecture`
  std::span<const gguf_name> names;  ///< patterns of names, in the order of the model's parameters
  /// Transformers' name of the activation function that llama.cpp always computes for the architecture; a GGUF file
  /// cannot select another one.
  std::string_view activation;
  /// Numbers of config.json that the files store. All other numbers must have the value of a plain Llama model.
  std::span<const gguf_number> numbers = {};
  /// True: llama.cpp reads divisors of the rotary frequencies for the architecture; it refuses files of other
  /// architectures that have such tensors.
  bool divides_frequencies = false;
  /// True: the files store the width of the attention window; the family determines which layers have it.
  bool stores_window = false;
  /// Number of blocks of the model whose attention scores llama.cpp multiplies by 1 / sqrt(width / heads), and not by
  /// 1 / sqrt(head width); 0: there is no such model.
  uint32_t wide_blocks = 0;
  /// Conditions of llama.cpp on three parts: a head with weights of its own, biases of attention, biases of the MLP.
  gguf_part own_head = gguf_part::optional;
  gguf_part attention_biases = gguf_part::optional, mlp_biases = gguf_part::optional;
};

/// One family of models: an embedding, blocks of attention and MLP, a final norm, a head. Norms precede attention and
/// MLP, follow them, or are applied to the residual path after each addition.
struct family {
  std::string_view model_type;    ///< value of config.json's key model_type, and the family's name everywhere
  std::string_view architecture;  ///< transformers' class of the model, for config.json's key `architectures`
  /// Class of the tokenizer that transformers chooses for the family if no file names one; empty: one that does not
  /// merge byte pairs (data/tokenizers/tokenizer_class.cpp).
  std::string_view tokenizer_class = {};
  config_keys keys;
  layer_names names;
  norm_kind norm;
  core::weight_layout layout;                 ///< layout of the linear layers' weights
  bool attention_output_is_unbiased = false;  ///< true: attention's last layer has no bias, even if the others have one
  norm_order order_of_norms = norm_order::beside;
  bool attention_output_is_first =
      false;  ///< true: in files, the output layer's parameters precede those of the layers before attention
  packing packed_as = packing::side_by_side;
  query_norm_span query_norms = query_norm_span::head;
  /// Number added to the weights of all norms before they multiply: 1 if weights are stored as differences from 1.
  float norm_shift = 0;
  /// True: the embedding's vectors are multiplied by sqrt(width), rounded to their type.
  bool embedding_grows_with_width = false;
  /// True: output layers of blocks are initialised with smaller values, as in section 2.3 of the paper on GPT-2.
  bool residual_starts_smaller = false;
  gguf_row gguf = {};  ///< without an architecture: GGUF files of the family are neither read nor written
  /// True: a token attends to all tokens of its document, and training replaces some tokens of a text, which the model
  /// has to find. False: a token attends to the tokens before it, and the model has to find the next one.
  bool is_encoder = false;
  /// True: the first position has the number after the padding token's number (key `padding`).
  bool positions_follow_padding = false;
  bool positions_are_last = false;  ///< true: in files, the positions come after the other parameters of the embedding
  /// Transformers' name of the head's activation function; empty: the MLP's function.
  std::string_view head_activation = {};
  /// Beginnings, without the prefix, of the names of tensors that files of the family may contain but that no layer
  /// reads: parts for other tasks.
  std::span<const std::string_view> unread_tensors = {};

  [[nodiscard]] constexpr bool is_rotary() const { return names.positions.empty(); }
  [[nodiscard]] constexpr bool is_packed() const { return !names.packed.empty(); }
  [[nodiscard]] constexpr bool has_query_norms() const { return !names.query_norm.empty(); }
  /// True if the outputs of attention and of the MLP are normed before they are added to the residual path.
  [[nodiscard]] constexpr bool has_end_norms() const { return !names.attention_end_norm.empty(); }
  /// True if a norm precedes the linear layers of attention and of the MLP.
  [[nodiscard]] constexpr bool has_first_norms() const { return !names.attention_norm.empty(); }
  /// True if the residual path is normed after each addition. The norm after a half of a block, or after the embedding,
  /// is computed by the half, or the head, that follows.
  [[nodiscard]] constexpr bool has_sum_norms() const { return !names.attention_sum_norm.empty(); }
  /// True if a linear layer, an activation and a norm precede the head's last linear layer.
  [[nodiscard]] constexpr bool has_head_transform() const { return !names.head_transform.empty(); }
  /// True if a parameter of the head has the name `bare`, which has no prefix.
  [[nodiscard]] constexpr bool is_of_head(std::string_view bare) const {
    const std::string_view first = names.head.substr(0, names.head.find('.'));
    return bare.size() > first.size() && bare.starts_with(first) && bare[first.size()] == '.';
  }
  [[nodiscard]] constexpr bool is_gated() const { return !names.gate.empty() || has_packed_mlp(); }
  [[nodiscard]] constexpr bool has_packed_mlp() const { return !names.gate_and_up.empty(); }
  /// Returns the number of linear layers that compute queries, keys and values: 1 packed layer or 3.
  [[nodiscard]] constexpr uint64_t attention_inputs() const { return is_packed() ? 1 : 3; }
  /// Returns the total width of the MLP's first layers in multiples of the inner width: 2 with a gate, else 1.
  [[nodiscard]] constexpr uint64_t mlp_inputs() const { return is_gated() ? 2 : 1; }
  /// Returns the number of linear layers before the MLP's activation.
  [[nodiscard]] constexpr uint64_t mlp_first_layers() const { return has_packed_mlp() ? 1 : mlp_inputs(); }
};

/// True if the layers that every family has, and keys that every family reads, have names.
constexpr bool has_names(const family& f) {
  const auto& n = f.names;
  for (const std::string_view name :
       {n.embedding, n.blocks, n.attention, n.attention_output, n.activation, n.down, n.head})
    if (name.empty()) return false;
  return !f.model_type.empty() && !f.keys.norm_epsilon.name.empty() && !f.keys.activation.empty();
}

/// True if models/families/ can compute models of the encoder `f`: learned positions, types of tokens, layer norms of
/// the residual path and no other norms, separate projections, an MLP without a gate, a tied head with a bias.
constexpr bool is_computed_encoder(const family& f) {
  const auto& n = f.names;
  if (f.is_rotary() || f.is_packed() || f.is_gated() || f.norm != norm_kind::layer || f.norm_shift != 0) return false;
  if (f.has_first_norms() || f.has_end_norms() || f.has_query_norms() || !n.final_norm.empty()) return false;
  if (!f.keys.tied.name.empty() || !f.keys.tied.usual || f.order_of_norms != norm_order::last) return false;
  if (!f.keys.parallel_residual.name.empty() || f.keys.parallel_residual.usual || f.attention_output_is_first)
    return false;
  if (f.positions_follow_padding && f.keys.padding.name.empty()) return false;
  for (const std::string_view name : {n.query, n.key, n.value, n.up, n.token_types, n.embedding_norm, n.mlp_sum_norm,
                                      n.head_bias, n.head_norm, f.keys.token_types.name})
    if (name.empty()) return false;
  return has_names(f);
}

/// True if models/families/ can compute models of the family. A decoder with learned positions must have one projection
/// of queries, keys and values, all queries first. Attention and MLP of a decoder must have norms before them, after
/// them or both, all of them RMS norms if any is after them; a family whose attention and MLP read one residual path
/// must have none after them. For an encoder see is_computed_encoder(). Every layer must have a name.
constexpr bool is_computed(const family& f) {
  const auto& n = f.names;
  if (f.is_encoder != f.has_sum_norms() || f.is_encoder != f.has_head_transform()) return false;
  if (f.is_encoder) return is_computed_encoder(f);
  if (n.final_norm.empty() || !n.head_bias.empty()) return false;
  if (f.positions_follow_padding || !n.token_types.empty() || !n.embedding_norm.empty()) return false;
  if (!f.is_rotary() && (!f.is_packed() || f.packed_as != packing::side_by_side)) return false;
  if (f.is_packed() && f.has_query_norms()) return false;
  if (f.has_packed_mlp() != n.up.empty() || (f.has_packed_mlp() && !n.gate.empty())) return false;
  if (n.query_norm.empty() != n.key_norm.empty() || (f.has_query_norms() && f.norm != norm_kind::rms)) return false;
  if (n.attention_norm.empty() != n.mlp_norm.empty() || n.attention_end_norm.empty() != n.mlp_end_norm.empty())
    return false;
  if (!f.has_first_norms() && !f.has_end_norms()) return false;
  if (f.has_end_norms() && (f.norm != norm_kind::rms || f.order_of_norms != norm_order::last)) return false;
  if (f.has_end_norms() && (!f.keys.parallel_residual.name.empty() || f.keys.parallel_residual.usual)) return false;
  if (f.norm_shift != 0 && (f.norm != norm_kind::rms || f.norm_shift != 1)) return false;
  if (!f.keys.residual_scale.name.empty() && !f.keys.residual_dropout.name.empty()) return false;
  if (!f.is_packed() && (n.query.empty() || n.key.empty() || n.value.empty())) return false;
  return has_names(f);
}

}  // namespace troupe::families
