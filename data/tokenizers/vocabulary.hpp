// A vocabulary as a list, for writing it into files of other programs: text and kind of every token, and the merges.
// Encoding texts is the task of tokenizer.hpp, reading a vocabulary that of opening/vocabulary_files.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizers/special_tokens.hpp"
#include "data/tokenizers/text/text_rules.hpp"

namespace troupe::data {

/// Kind of a token, with SentencePiece's numbers.
enum class token_kind : int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

/// Algorithm that converts a text to tokens of a vocabulary.
enum class vocabulary_kind : uint8_t {
  byte_level,         ///< byte pairs: tokens are merged in the order of a list of merges, beginning with single bytes
  sentencepiece_bpe,  ///< SentencePiece BPE: neighbours are merged, the pair whose piece has the highest score first
  sentencepiece_unigram,  ///< SentencePiece unigram: the sequence of pieces with the highest sum of scores
};

/// One token of a vocabulary.
struct vocabulary_entry {
  std::string text;
  token_kind kind = token_kind::normal;
  float score = 0;  ///< score of the token's piece in a SentencePiece model; 0 for byte-level vocabularies
};

/// A tokenizer's tokens, merges, scores and special tokens, as other programs need them in model files.
struct vocabulary {
  vocabulary_kind kind = vocabulary_kind::byte_level;
  /// [number of the token]: the token; a number without a token has the kind `unused`.
  std::vector<vocabulary_entry> entries;
  std::vector<std::string> merges;  ///< texts `left right` of the merges, in the order of their ranks
  text_rules rules{};               ///< how a byte-level vocabulary prepares texts before merging
  /// Reason why the words and the merges do not determine the tokens of a text; empty: they do.
  std::string objection{};
  /// Message that the vocabulary lacks a byte, so that a text with this byte cannot be encoded; empty: it lacks no
  /// byte.
  std::string fault{};
  special_tokens special{};           ///< special tokens of the folder and of a SentencePiece model
  bool adds_space = false;            ///< SentencePiece: true: the model adds a space before a text
  bool removes_extra_spaces = false;  ///< SentencePiece: true: the model removes repeated spaces from a text
  /// SentencePiece: true: a space is the end of a piece, not the beginning.
  bool ends_pieces_with_space = false;
  bool keeps_spaces = false;  ///< SentencePiece: true: pieces have spaces as such, not as U+2581
  std::string normaliser;     ///< SentencePiece: the compiled table of the normaliser
};

/// Returns the vocabulary of the byte tokenizer: one token for each of the 256 bytes.
vocabulary byte_vocabulary();

}  // namespace troupe::data
