// Checks the outer form of a SentencePiece `.model` file, a protocol buffer, to refuse truncated files and files of
// another kind before the library reads them: the library would accept half a vocabulary as a whole one.
#pragma once

#include <cstdint>
#include <span>

#include "core/error.hpp"

namespace troupe::data {

/// Facts about a model that the library does not return.
struct sentencepiece_shape {
  uint64_t pieces = 0;
  bool adds_space = true;                ///< a space is added before a text
  bool removes_extra_spaces = true;      ///< spaces at the ends of a text, and repeated ones, are removed
  bool has_pieces_of_words = false;      ///< pieces are whole words, and unknown words in a row are one unknown piece
  bool ends_pieces_with_space = false;   ///< a space belongs to the piece before it, and one is added after a text
  bool rewrites_across_a_blank = false;  ///< a rule of the normalizer has a blank or line break after another byte
};

/// Walks the fields of `ModelProto` (sentencepiece_model.proto): pieces (1), trainer (2) and normalizer (3) must exist
/// and be whole, and the rule tables of normalizer and denormalizer (5) must not refer outside themselves
/// (sentencepiece_rules.hpp). Errors name the byte and, inside the vocabulary, the piece.
core::result<sentencepiece_shape> check_sentencepiece_file(std::span<const std::byte> file);

}  // namespace troupe::data
