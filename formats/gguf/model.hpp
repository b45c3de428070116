// The sizes of a model, read from and written as GGUF metadata, and written as Hugging Face's config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "formats/gguf/header.hpp"

namespace troupe::formats {

/// Sizes of a model of a known family (families/).
struct gguf_model {
  std::string architecture;  ///< architecture name of the family in GGUF files
  uint32_t blocks = 0, width = 0, inner = 0, heads = 0, kv_heads = 0, head_width = 0, positions = 0, vocabulary = 0;
  double norm_epsilon = 0;
  double rope_theta = 0;  ///< base of the rotary positions' frequencies
  /// Scaling of the rotary positions, for files that are written. rope_scaling: value of the key rope.scaling.type
  /// (linear, yarn, longrope; empty: none). rope_factor: the factor. rope_attention_factor: factor of cosines and sines
  /// in addition to the one that llama.cpp computes for the type. rope_original_positions: number of positions before
  /// scaling (yarn, llama3, longrope).
  std::string rope_scaling = {};
  double rope_factor = 1, rope_attention_factor = 1;
  uint32_t rope_original_positions = 0;
  /// Divisors of the rotary frequencies, one for each pair of a head's elements; empty: none. rope_divisors is the
  /// tensor rope_freqs.weight. The other two are longrope's, for sequences up to the original positions and for longer
  /// ones: the tensors rope_factors_short.weight and rope_factors_long.weight. model_of() reads no elements and leaves
  /// all three empty; read_rope_divisors() fills them.
  std::vector<float> rope_divisors = {}, rope_short_divisors = {}, rope_long_divisors = {};
  std::vector<std::string> rope_tensors = {};  ///< names of the tensors of divisors in a file that was read
  bool tied = false;                           ///< true: the head uses the embedding's weights
  bool attention_bias = false, mlp_bias = false;
  std::optional<bool> parallel_residual = {};  ///< attention and MLP read the same residual path; nothing: not stored
  uint32_t rotary_width = 0;                   ///< number of a head's elements that are rotated; 0: all
  /// attention window of those layers of the family that have one, if the file states it; 0: no window
  uint32_t window = 0;
  /// Numbers of the family that its files store (families::gguf_row::numbers), as pairs of metadata key and value.
  std::vector<std::pair<std::string, double>> numbers = {};
};

/// Returns the model's GGUF metadata: `general.architecture` and the keys of its architecture, as llama.cpp reads them.
gguf_metadata metadata_of(const gguf_model& m);

/// Returns the sizes that a file's metadata and tensors state; nothing for an architecture of no known
/// family. Refused: a size that is missing, or outside the range of any model.
core::result<std::optional<gguf_model>> model_of(const gguf_header& h);

/// Reads the divisors of the model from the file with the header `h`, those that the file has in fp32 and one for each
/// pair of a head's rotated elements. Errors: io.
core::result<void> read_rope_divisors(const core::source_file& file, const gguf_header& h, gguf_model& m);

/// Returns config.json's keys of the model, with the scaling of its rotary positions and the numbers of its special
/// tokens if `metadata` has them. A key that changes the model and that config.json has no name for is written under
/// its GGUF name, such as `llama.expert_count`, so that readers refuse it.
std::string hugging_face_keys(const gguf_model& m, const gguf_metadata& metadata);

}  // namespace troupe::formats
