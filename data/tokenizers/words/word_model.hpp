// Encodes single words, which a tokenizer.json has cut from a text, as tokens: the models BPE, Unigram and WordPiece.
// word_model.cpp reads the key `model`; each model has a source file of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace troupe::data {

/// The words of a model and its other keys.
struct model_words {
  std::vector<std::string> text_of;                    ///< [token]: its text; empty for numbers without a token
  std::unordered_map<std::string, uint32_t> token_of;  ///< [text]: token
  std::vector<double> scores{};                        ///< [token]: its score, for Unigram

  [[nodiscard]] std::optional<uint32_t> find(const std::string& text) const {
    const auto at = token_of.find(text);
    return at == token_of.end() ? std::nullopt : std::optional(at->second);
  }
};

/// Encodes words; an object has scratch memory, so one thread at a time may use it.
class word_model {
 public:
  virtual ~word_model() = default;

  /// Appends the tokens of a word, which is valid UTF-8 unless the model reads bytes. Refused: a character for which
  /// the vocabulary has no token.
  virtual core::result<void> encode(std::string_view word, std::vector<uint32_t>& out) = 0;

  /// True if the two parts of `word` before and after byte `at` have the same tokens as separate words and within
  /// `word`, even if more text follows `word`.
  [[nodiscard]] virtual bool may_divide(std::string_view /*word*/, size_t /*at*/) const { return false; }
};

/// The content of the key `model` of a tokenizer.json.
struct model_in_file {
  std::unique_ptr<word_model> model;
  model_words words;
  std::string kind;                   ///< kind of the model for tokenizer_description: byte-pairs, unigram or wordpiece
  std::string identity;               ///< text for the digest: words, merges, scores and all keys that decide tokens
  std::vector<uint8_t> lost_bytes{};  ///< bytes without a token, which encoding leaves out
};

/// Refuses a key of a BPE model that is not known, or that has a value of another type, with its name.
core::result<void> check_pair_keys(const nlohmann::json& model);

/// Reads the key `model`. `is_byte_level` is true if words have bytes, written in GPT-2's alphabet in the vocabulary.
/// Refused: a model or key that is not known, `dropout`, sampling, merges of missing words, and a byte-level vocabulary
/// that lacks bytes that texts need (byte_alphabet::fault_without()).
core::result<model_in_file> read_word_model(const nlohmann::json& model, bool is_byte_level);

/// Returns the tokens of all 256 bytes, written `<0x0A>`; nullopt for those that the vocabulary lacks.
std::vector<std::optional<uint32_t>> byte_tokens(const model_words& words);

/// Options of a BPE model.
struct pair_options {
  bool is_byte_level = false;      ///< true: words consist of bytes, not of characters
  bool takes_whole_words = false;  ///< true: a word that the vocabulary contains becomes one token (`ignore_merges`)
  /// true: a character without a token becomes the tokens of its bytes (`byte_fallback`)
  bool has_byte_tokens = false;
  bool fuses_unknown = false;  ///< true: consecutive unknown characters become one token (`fuse_unk`)
  std::optional<uint32_t> unknown{};
  std::string prefix{};  ///< prefix of all symbols of a word except the first (`continuing_subword_prefix`)
  std::string suffix{};  ///< suffix of the last symbol of a word (`end_of_word_suffix`)
};

/// Makes a BPE model; `merges` are pairs of words by rank. Refused: merges of missing words or into missing words, and
/// one that occurs twice.
core::result<std::unique_ptr<word_model>> make_pair_model(
    const model_words& words, const std::vector<std::pair<std::string, std::string>>& merges, pair_options options);
/// Makes a Unigram model, which divides a word into the words of the vocabulary with the highest sum of scores.
/// `unknown` is the token for characters that have none.
std::unique_ptr<word_model> make_unigram_model(const model_words& words, std::optional<uint32_t> unknown,
                                               bool has_byte_tokens);
/// Makes a WordPiece model, which takes the longest word of the vocabulary at each place of a word; after the first
/// place, words of the vocabulary have `prefix`. A word that cannot be divided in this way, or has more than
/// `most_characters`, becomes `unknown`.
std::unique_ptr<word_model> make_piece_model(const model_words& words, uint32_t unknown, std::string prefix,
                                             uint64_t most_characters);

}  // namespace troupe::data
