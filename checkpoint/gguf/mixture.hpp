// Which type each tensor of a GGUF file gets: one for all matrices, or a mixture as llama.cpp names them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/gguf/families.hpp"
#include "checkpoint/gguf/tensor_type.hpp"

namespace troupe::checkpoint {

/// What `--type` says.
struct gguf_mixture {
  gguf_type type = gguf_type::f32;  ///< of most matrices
  bool medium = false;              ///< `_m`: what counts most is stored in more bits
  /// Of the embedding and the head, where that is said apart.
  std::optional<gguf_type> embeddings = std::nullopt;
};

/// `f32`, `q4_0`, `q4_k_m` ...; nothing for any other text.
std::optional<gguf_mixture> mixture_from(std::string_view text);
std::string name_of(const gguf_mixture& m);
/// The names of all of them.
std::vector<std::string> all_mixtures();
/// The same in one text, for messages.
std::string mixture_names();

/// `general.file_type`: llama.cpp's number of the mixture.
uint32_t file_type_of(const gguf_mixture& m);

/// The type of one tensor. fp32: what has one extent (norms, biases) and positions. A `_m` stores the head (and the
/// embedding that is one) as q6_k, as it does half of the value and the second MLP matrices; GPT-2's joint matrix of
/// queries, keys and values gets one bit more. Rows that are no whole blocks get the next larger type whose blocks
/// they are: q4_k q5_0, q5_k q5_1, q6_k q8_0, and where not even 32 divides them f16.
gguf_type type_for(const gguf_mixture& m, const gguf_place& place, uint64_t row_elements, size_t extents,
                   uint32_t blocks, bool tied);

}  // namespace troupe::checkpoint
