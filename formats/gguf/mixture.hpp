// Chooses the type of each tensor of a GGUF file: one type for all matrices, or a mixture that has llama.cpp's name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf/families.hpp"
#include "formats/gguf/tensor_type.hpp"

namespace troupe::formats {

/// Element types for the tensors of a GGUF file, as the option `--type` names them.
struct gguf_mixture {
  gguf_type type = gguf_type::f32;  ///< element type of most matrices of the file
  bool medium = false;              ///< true: a `_m` mixture, which stores the most sensitive matrices in more bits
  /// Type of the embedding and the head; nothing: chosen by `type` and `medium`.
  std::optional<gguf_type> embeddings = std::nullopt;
};

/// Returns the mixture named `text`: `f32`, `q4_0`, `q4_k_m` ...; nothing for any other text.
std::optional<gguf_mixture> mixture_from(std::string_view text);
std::string name_of(const gguf_mixture& m);
/// Returns the names of all mixtures, as the option `--type` accepts them.
std::vector<std::string> all_mixtures();
/// Returns the names of all mixtures as one text, for messages.
std::string mixture_names();

/// Returns the number that llama.cpp assigns to the mixture, the value of the metadata key `general.file_type`.
uint32_t file_type_of(const gguf_mixture& m);

/// Returns the type of one tensor. Tensors with one extent (norms, biases) and learned positions are fp32. A `_m`
/// mixture stores as q6_k the head (or the embedding, if it is tied to the head) and about half of the value matrices
/// and of the second MLP matrices; it stores GPT-2's joint matrix of queries, keys and values with one bit more. If
/// the rows do not divide into blocks of 256, q4_k becomes q5_0, q5_k becomes q5_1 and q6_k becomes q8_0; if the rows
/// do not divide into blocks of 32 either, the type is f16.
gguf_type type_for(const gguf_mixture& m, const gguf_place& place, uint64_t row_elements, size_t extents,
                   uint32_t blocks, bool tied);

}  // namespace troupe::formats
