// A vocabulary as a list: every token's text, what kind it is, the merges. For files that carry it to other programs;
// cutting text into tokens is tokenizer.hpp's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "data/tokenizers/special_tokens.hpp"

namespace troupe::data {

/// The numbers are SentencePiece's.
enum class token_kind : int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

/// How a text becomes tokens.
enum class vocabulary_kind : uint8_t {
  byte_level,             ///< byte-pair merges of a byte alphabet; single bytes have no merges
  sentencepiece_bpe,      ///< merges by the score of what they make
  sentencepiece_unigram,  ///< the likeliest pieces
};

/// One token.
struct vocabulary_entry {
  std::string text;
  token_kind kind = token_kind::normal;
  float score = 0;  ///< SentencePiece's
};

/// All of a tokenizer that others need.
struct vocabulary {
  vocabulary_kind kind = vocabulary_kind::byte_level;
  std::vector<vocabulary_entry> entries;  ///< by token; one that is missing is `unused`
  std::vector<std::string> merges;        ///< `left right`, by rank
  /// How a byte-level one cuts words before it merges, as llama.cpp calls it: gpt-2, smollm, llama-bpe.
  std::string words;
  /// Why texts are cut in another way than words and merges say; empty: they are not.
  std::string objection{};
  special_tokens special{};           ///< of the folder, and of a SentencePiece model
  bool adds_space = false;            ///< SentencePiece: in front of a text
  bool removes_extra_spaces = false;  ///< SentencePiece
  std::string normaliser;             ///< SentencePiece: its compiled table
};

/// The 256 bytes.
vocabulary byte_vocabulary();

/// The vocabulary at `path`: a `.model` file; a tokenizer.json; a vocab.json with merges.txt beside it; or a folder
/// that holds one of them, looked for in this order. Special tokens, added words and templates of conversations are
/// those of the folder (special_tokens.hpp). Refused: a kind that is none of vocabulary_kind, or cuts words in a way
/// that is not known here.
core::result<vocabulary> read_vocabulary(const std::filesystem::path& path);

/// Whether read_vocabulary() finds something to read there.
bool has_vocabulary(const std::filesystem::path& folder);

}  // namespace troupe::data
