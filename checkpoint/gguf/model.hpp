// The sizes of a model as GGUF's metadata has them, and as Hugging Face's config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/gguf/header.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Of the families that are known.
struct gguf_model {
  std::string architecture;  ///< `gpt2` or `llama`
  uint32_t blocks = 0, width = 0, inner = 0, heads = 0, kv_heads = 0, head_width = 0, positions = 0, vocabulary = 0;
  double norm_epsilon = 0;
  double rope_theta = 0;                          ///< Llama's
  bool has_rope_factors = false;                  ///< a tensor scales the rotary positions, as of Llama 3
  bool tied = false;                              ///< the head is the embedding
  bool attention_bias = false, mlp_bias = false;  ///< Llama's
};

/// `general.architecture` and the architecture's own keys, as llama.cpp reads them.
gguf_metadata metadata_of(const gguf_model& m);

/// From a file's metadata and tensors; nothing of an architecture that is not known here. Refused: a size that is
/// missing, or that no model has.
core::result<std::optional<gguf_model>> model_of(const gguf_header& h);

/// Hugging Face's keys of the model, with the scaling of its rotary positions and the numbers of its special tokens where
/// `metadata` says them. Keys that change the model and that config.json has no name for stand there under their own, as
/// `llama.expert_count`: readers refuse them.
std::string hugging_face_keys(const gguf_model& m, const gguf_metadata& metadata);

}  // namespace troupe::checkpoint
