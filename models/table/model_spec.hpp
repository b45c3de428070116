// The description of a model: family and sizes, from Hugging Face's config.json keys. No Torch here.
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
#include "families/rows.hpp"
#include "models/table/tp_split.hpp"

namespace troupe::models {

enum class activation : uint8_t { gelu_tanh, gelu_exact, silu, relu };  ///< activation of the MLP

struct model_spec {                                  ///< a model's sizes and choices
  const families::family* family = &families::gpt2;  ///< family of the model, which determines names and layers
  uint32_t layers = 0, width = 0, heads = 0, kv_heads = 0, head_width = 0, inner = 0;
  uint32_t positions = 0, vocabulary = 0;
  activation act = activation::gelu_tanh;
  bool tied = true;  ///< true: the head shares the embedding's weight
  bool attention_bias = true;
  bool mlp_bias = true;
  double norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  double rope_theta = 10000.0;
  float embedding_dropout = 0, attention_dropout = 0, residual_dropout = 0;
  /// Rows of logits computed at a time, set by the job and not by a key (row_tiles.hpp); 0: all.
  uint64_t head_tile_rows = 0;
  uint64_t mlp_tile_rows = 0;     ///< rows of an MLP's activation inputs held at a time, set by the job; 0: all
  std::string hugging_face_json;  ///< original keys of config.json, written back at export
  std::string remark;             ///< differences of the model from its keys, as a sentence for people; empty: none
};

/// Limits of the keys' text.
inline constexpr uint64_t max_model_keys_bytes = uint64_t{16} << 20;
inline constexpr size_t max_model_keys_depth = 64;

/// Reads Hugging Face's config.json keys (a JSON object as text). Errors, with the key named: an unknown family,
/// impossible sizes (width not divisible by heads ...), repeated keys, and keys that change the model or may change it
/// (config_keys.hpp); keys in `ignored` are treated as absent. Missing keys have transformers' defaults; for GPT-2
/// these drop 0.1 of embeddings, attention weights and residuals.
core::result<model_spec> parse_model_spec(const std::string& hugging_face_json,
                                          std::span<const std::string> ignored = {});

/// Reads the sizes that determine the names and shapes of parameters, for files that are copied and not computed with:
/// ignores keys that change the arithmetic alone. Returns nullopt if the family is unknown. Errors: a wrong size, keys
/// that no table has.
core::result<std::optional<model_spec>> parse_model_sizes(const std::string& hugging_face_json,
                                                          std::span<const std::string> ignored = {});

/// Reads the model of `folder`/config.json. Errors: those of parse_model_spec, with the path in front.
core::result<model_spec> read_spec(const std::filesystem::path& folder, std::span<const std::string> ignored = {});

struct spec_problem {  ///< an error in a model's keys
  std::string key;     ///< the first key that the problem concerns; empty: the keys as a whole
  core::error what;
  bool of_sizes = false;  ///< true: the names or shapes of parameters depend on the key, or may depend on it
};

/// Returns all problems for which parse_model_spec refuses the keys, in the order of its reading; empty: none.
std::vector<spec_problem> problems_of(const std::string& hugging_face_json, std::span<const std::string> ignored = {});

/// Returns the activation that transformers calls `name`; nullopt if transformers or Troupe has none of that name.
std::optional<activation> activation_named(std::string_view name);

/// Returns the table of a model: parameters (Hugging Face names and shapes, initial values as transformers draws them),
/// the layers that read them, units and segments, with flops and activation bytes for one micro-batch of rows x columns
/// tokens of `element_bytes` each. If `split` cuts the model: the table of one rank of the tensor axis, which is the
/// same for all ranks (tp_split.hpp). If `sequence` splits samples: the table of the rank with most columns, in which
/// attention is two or three segments.
core::model_table make_model_table(const model_spec& spec, uint64_t rows, uint64_t columns, uint64_t element_bytes,
                                   const tensor_split& split = {}, const sequence_split& sequence = {});

}  // namespace troupe::models
