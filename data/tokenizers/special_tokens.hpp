// The special tokens, added words and chat templates that a tokenizer's folder names, read from all the files that
// Hugging Face's libraries write there. Every command asks this one reader: GGUF files by vocabulary.hpp, tokenizers of
// text by tokenizer.hpp. Files that are missing say nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace troupe::data {

/// A word that was added to a trained vocabulary; it is its own text, whatever alphabet the vocabulary writes.
struct added_word {
  std::string text;
  uint32_t id = 0;
  bool is_special = false;  ///< a file marks the word as special, or names it as the end of a text or the like
  bool is_bounded = false;  ///< transformers takes blanks beside it or looks at word borders
};

/// The words in tokenizer.json's `added_tokens`, tokenizer_config.json's `added_tokens_decoder` and added_tokens.json,
/// by number. Refused: entries without text or number, and a number with two texts.
core::result<std::vector<added_word>> read_added_words(const std::filesystem::path& folder);

struct special_tokens {
  std::optional<uint32_t> begin{}, end{}, unknown{}, separator{}, padding{}, mask{}, end_of_turn{}, end_of_message{};
  std::optional<bool> adds_begin{}, adds_end{},
      adds_separator{};         ///< whether a text's tokens get them, where it is said
  std::vector<uint32_t> named;  ///< tokens whose text a file names as special
  std::string lost_end;         ///< a text that is named as the end, which no token has; empty where `end` is known
  std::string chat_template;    ///< how a conversation becomes a text; empty: not said
  std::vector<std::pair<std::string, std::string>> other_templates;  ///< name and template, beside the default one
};

/// The number of the token with that text.
using token_finder = std::function<std::optional<uint32_t>(std::string_view)>;

/// Special tokens of a vocabulary of `tokens` numbers. The order is that of llama.cpp's converter (gguf-py's
/// SpecialVocab): tokenizer_config.json, changed by tokenizer.json's `post_processor`, then config.json's numbers; what
/// it leaves open is asked of special_tokens_map.json, generation_config.json, the first of a list of numbers, and the
/// words that `post_processor` puts around a text.
core::result<special_tokens> read_special_tokens(const std::filesystem::path& folder, const token_finder& number_of,
                                                 uint64_t tokens);

}  // namespace troupe::data
