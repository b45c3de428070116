// A vocabulary as a list: every token's text and kind, and the merges, for files that pass it to other programs. Leaves
// cutting text into tokens to tokenizer.hpp.
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

/// Kind of a token, with SentencePiece's numbers.
enum class token_kind : int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

/// How a text is converted to tokens.
enum class vocabulary_kind : uint8_t {
  byte_level,             ///< merges of pairs in a byte alphabet; single bytes have no merges
  sentencepiece_bpe,      ///< merges by the score of the resulting piece
  sentencepiece_unigram,  ///< the likeliest sequence of pieces
};

/// One token of a vocabulary.
struct vocabulary_entry {
  std::string text;
  token_kind kind = token_kind::normal;
  float score = 0;  ///< score of the piece; SentencePiece only
};

/// A tokenizer's tokens, merges, scores and special tokens, as other programs need them in model files.
struct vocabulary {
  vocabulary_kind kind = vocabulary_kind::byte_level;
  std::vector<vocabulary_entry> entries;  ///< tokens by number; a missing token is `unused`
  std::vector<std::string> merges;        ///< `left right` of each merge, by rank
  /// How a byte-level vocabulary cuts words before merging, by llama.cpp's name: gpt-2, smollm, llama-bpe.
  std::string words;
  /// Reason why words and merges do not describe how texts are cut; empty: they describe it.
  std::string objection{};
  /// Reason why some texts have no tokens, because the model represents not every byte; empty: all texts have tokens.
  std::string fault{};
  special_tokens special{};           ///< special tokens of the folder and of a SentencePiece model
  bool adds_space = false;            ///< SentencePiece: a space is added before a text
  bool removes_extra_spaces = false;  ///< SentencePiece: repeated spaces are removed from a text
  std::string normaliser;             ///< SentencePiece: the compiled table of the normaliser
};

/// Returns the vocabulary of the byte tokenizer: one token for each of the 256 bytes.
vocabulary byte_vocabulary();

/// Reads the vocabulary at `path`: a `.model` file; a tokenizer.json; a vocab.json with merges.txt next to it; or a
/// folder that holds one of them, searched in this order. Special tokens, added words and chat templates are those of
/// the folder (special_tokens.hpp). Refused: a kind outside vocabulary_kind, a way of cutting words that is not known,
/// `add_prefix_space` with byte pairs, and a `.model` or vocab.json that open_tokenizer() refuses.
core::result<vocabulary> read_vocabulary(const std::filesystem::path& path);

/// True if read_vocabulary() would find a file to read in `folder`.
bool has_vocabulary(const std::filesystem::path& folder);

}  // namespace troupe::data
