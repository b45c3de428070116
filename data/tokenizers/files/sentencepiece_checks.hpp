// Checks a SentencePiece `.model` file, a protocol buffer, before the library reads it, and reads its vocabulary. Form
// and vocabulary have a source each; rules are checked by text/sentencepiece_rules.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/error.hpp"
#include "data/tokenizers/vocabulary.hpp"

namespace troupe::data {

/// Options of a SentencePiece model that affect how a long text may be cut, and that the library does not return.
struct sentencepiece_shape {
  uint64_t pieces = 0;
  bool adds_space = true;            ///< true: the model adds a space before a text
  bool removes_extra_spaces = true;  ///< true: the model removes spaces at both ends of a text, and repeated spaces
  /// True: pieces are whole words, and consecutive unknown words become one unknown piece.
  bool has_pieces_of_words = false;
  /// True: a space is the end of a piece, not the beginning, and one is added after a text.
  bool ends_pieces_with_space = false;
  /// True: a rule of the normalizer replaces a text that has a blank or line break after its first byte.
  bool rewrites_across_a_blank = false;
};

/// Walks the fields of `ModelProto` (sentencepiece_model.proto): pieces (1), trainer (2) and normalizer (3) must exist
/// and be whole, and the rule tables of normalizer and denormalizer (5) must not refer outside themselves
/// (sentencepiece_rules.cpp). Errors name the byte and, inside the vocabulary, the piece.
core::result<sentencepiece_shape> check_sentencepiece_file(std::span<const std::byte> file);

/// Returns pieces with scores and kinds, special tokens, and the normaliser's options. Refused: files that
/// check_sentencepiece_file() refuses, and a model that is neither BPE nor unigram.
core::result<vocabulary> pieces_of(std::span<const std::byte> file);

}  // namespace troupe::data
