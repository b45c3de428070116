// Writes a SentencePiece `.model` file, a protocol buffer, of pieces that came from a file of another format.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "data/tokenizers/vocabulary.hpp"

namespace troupe::data {

/// Options of a SentencePiece model, and the numbers of its special pieces.
struct piece_model_options {
  bool adds_space = true;             ///< true: the model adds a space before a text
  bool removes_extra_spaces = false;  ///< true: the model removes spaces at both ends of a text, and repeated spaces
  bool is_unigram = false;            ///< true: the division with the highest sum of scores; false: BPE
  std::string rules{};                ///< compiled rules that rewrite characters; empty: none
  std::optional<uint32_t> unknown{}, begin{}, end{}, padding{};
};

/// Returns the bytes of a model; field numbers are those of sentencepiece_model.proto.
std::string sentencepiece_model_of(std::span<const vocabulary_entry> pieces, const piece_model_options& options);

}  // namespace troupe::data
