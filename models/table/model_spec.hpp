// The description of a transformer model: its family and sizes, read from Hugging Face's config.json. No Torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/model_table.hpp"
#include "families/all_families.hpp"
#include "kernels/layers/cross_entropy.hpp"
#include "models/table/activation.hpp"
#include "models/table/adapters.hpp"
#include "models/table/attention_options.hpp"
#include "models/table/rotary_positions.hpp"
#include "models/table/tp_split.hpp"

namespace troupe::models {

/// How the products of the head's linear layer become logits: they are divided by `divisor`, and then, if `soft_cap` is
/// not 0, x becomes soft_cap * tanh(x / soft_cap).
struct logit_form {
  double divisor = 1, soft_cap = 0;
  bool operator==(const logit_form&) const = default;
  /// True if the products are the logits.
  [[nodiscard]] bool is_plain() const { return divisor == 1 && soft_cap == 0; }
};

struct model_spec {  ///< sizes of a transformer model, and its choices such as activation and biases
  /// Family of the model, which determines the layers and the names of parameters.
  const families::family* family = &families::gpt2;
  uint32_t layers = 0, width = 0, heads = 0, kv_heads = 0, head_width = 0, inner = 0;
  uint32_t positions = 0, vocabulary = 0;
  uint32_t first_position = 0;  ///< row of the positions' weight that a text's first token has
  uint32_t token_types = 0;     ///< number of rows of the weight of tokens' types; texts have type 0; 0: no such weight
  activation act = activation::gelu_tanh;       ///< activation of the MLP
  activation head_act = activation::gelu_tanh;  ///< activation of the head's transform, if the family has it
  bool tied = true;                             ///< true: the head has the embedding's weight; false: it has its own
  bool attention_bias = true;
  bool mlp_bias = true;
  /// True: attention and MLP of a block read the same residual path; they are one segment, because ranks exchange
  /// nothing between them.
  bool parallel_residual = false;
  double norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  double embedding_scale = 1;  ///< factor of the vectors that the token embedding looks up
  /// factor of the outputs of attention and MLP before they are added to the residual path
  double residual_scale = 1;
  logit_form logits = {};        ///< how the products of the head become logits
  bool scales_scores = true;     ///< true: attention scores have the factor 1 / sqrt(head width), if no key states it
  bool scales_by_layer = false;  ///< true: the scores of block b are divided by b + 1
  /// [block]: options of the block's attention; blocks beyond the end of the list have the defaults.
  std::vector<attention_options> attention = {};
  rotary_positions rope;             ///< base and scaling of rotary positions, if the family has them
  rotary_positions local_rope = {};  ///< positions of the blocks with `rotation::local`
  /// fraction of a head's elements that are rotated, beginning with the first element
  double rotary_share = 1;
  uint32_t rotary_width = 0;  ///< number of a head's elements that are rotated
  /// [block]: kind of the block's rotary positions; blocks beyond the end of the list have the model's positions.
  std::vector<rotation> rotations = {};
  /// Token whose embedding begins as 0 and gets no gradient from the embedding segment; the head's gradient remains.
  std::optional<uint32_t> padding_token;
  /// mask_token: token that replaces the tokens which an encoder has to find. special_tokens: tokens that are no part
  /// of a text, ascending. Both are read from keys of config.json, and are empty for families that are not encoders.
  std::optional<uint32_t> mask_token;
  std::vector<uint32_t> special_tokens;
  float embedding_dropout = 0, attention_dropout = 0, residual_dropout = 0;
  /// Number of rows (tokens) of logits that the head computes at a time (row_tiles.hpp), set by the job and not by a
  /// key of config.json; 0: all.
  uint64_t head_tile_rows = 0;
  /// How a token's loss is formed in training, set by the job; its `vocabulary` is not set.
  kernels::loss_form loss = {};
  uint64_t mlp_tile_rows = 0;  ///< number of rows (tokens) that an MLP processes at a time, set by the job; 0: all
  /// Adapters of linear layers, set by the job; all other parameters are then frozen. nullopt: there are none.
  std::optional<adapter_spec> adapters = std::nullopt;
  std::string hugging_face_json;  ///< text of config.json as it was read; its keys are written back at export
  std::string remark;  ///< sentence for the user if Troupe's model differs from its config.json; empty: it does not

  [[nodiscard]] rotation rotation_in(uint32_t block) const {
    return block < rotations.size() ? rotations[block] : rotation::usual;
  }
  [[nodiscard]] attention_options attention_in(uint32_t block) const {
    return block < attention.size() ? attention[block] : attention_options{};
  }
  /// Returns the number of tokens of the longest text that the model reads.
  [[nodiscard]] uint32_t longest() const { return positions - first_position; }
  /// Returns the shortest window of attention of any block; 0: every token attends to all tokens before it.
  [[nodiscard]] uint64_t shortest_window() const;
};

/// Largest size in bytes, and largest depth of nesting, of the text of a config.json.
inline constexpr uint64_t max_model_keys_bytes = uint64_t{16} << 20;
inline constexpr size_t max_model_keys_depth = 64;

/// Reads Hugging Face's config.json keys (a JSON object as text). Errors, with the key named: an unknown family,
/// impossible sizes (width not divisible by heads ...), repeated keys, and keys that change the model or may change it
/// (config_keys.hpp); keys in `ignored` are treated as absent. Missing keys have transformers' defaults; for GPT-2
/// these drop 0.1 of embeddings, attention weights and residuals.
core::result<model_spec> parse_model_spec(const std::string& hugging_face_json,
                                          std::span<const std::string> ignored = {});

/// Returns the keys (a JSON object as text) with `tie_word_embeddings: false`, so that the head is a parameter of its
/// own; the other keys keep their order. Returns a text that is no JSON object unchanged.
std::string with_untied_head(const std::string& hugging_face_json);

/// Returns the keys (a JSON object as text) with which transformers builds the model: with `pad_token_id: null` if the
/// key is absent and the vocabulary lacks the family's usual padding token; the other keys keep their order. Returns
/// the text unchanged if it has the key, or describes no model of a known family.
std::string with_null_padding(const std::string& hugging_face_json, std::span<const std::string> ignored = {});

/// Reads only the sizes that determine the names and shapes of parameters, for weights that are copied and not computed
/// with: keys that change only the arithmetic are ignored. Returns nullopt if the family is unknown. Errors: a wrong
/// size, keys that no table has.
core::result<std::optional<model_spec>> parse_model_sizes(const std::string& hugging_face_json,
                                                          std::span<const std::string> ignored = {});

/// True if `path` is a file that begins as a GGUF file does.
bool is_gguf_file(const std::filesystem::path& path);

/// Reads `folder`/config.json. Errors: those of parse_model_spec, preceded by the path.
core::result<model_spec> read_spec(const std::filesystem::path& folder, std::span<const std::string> ignored = {});

struct spec_problem {  ///< an error in the keys of a config.json
  std::string key;     ///< the first key with the error; empty: the error concerns the text as a whole
  core::error what;
  /// True: names or shapes of parameters depend on the key, or may, so that copying weights is refused as well.
  bool of_sizes = false;
};

/// Returns all errors for which parse_model_spec refuses the keys, in the order in which they are read; empty: none.
std::vector<spec_problem> problems_of(const std::string& hugging_face_json, std::span<const std::string> ignored = {});

/// Returns the table of a model: parameters (Hugging Face names and shapes, initial values as transformers draws them),
/// the layers that read them, units and segments, with flops and activation bytes for one micro-batch of rows x columns
/// tokens, with parameters and activations of `element_bytes` bytes per element. If `split` divides the model over
/// tensor-parallel ranks: the table of one of these ranks, which is the same for all (tp_split.hpp). If `sequence`
/// divides samples over ranks: the table of the rank with most columns, in which attention is two or three segments.
/// The parameters of adapters, if the model has some, follow all others; adapters are not divided by `split`.
core::model_table make_model_table(const model_spec& spec, uint64_t rows, uint64_t columns, uint64_t element_bytes,
                                   const tensor_split& split = {}, const sequence_split& sequence = {});

}  // namespace troupe::models
