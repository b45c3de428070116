// Reads the special tokens, added words and chat templates of a tokenizer's folder from all the files that Hugging
// Face's libraries write there. No other code reads these files: the writer of GGUF files calls this reader through
// vocabulary.hpp, the tokenizers of text through tokenizer.hpp. Missing files are ignored.
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

/// A word that was added to a trained vocabulary; it is written as its own text, whatever the vocabulary's alphabet.
struct added_word {
  std::string text;
  uint32_t id = 0;
  /// True: a file marks the word as special, or names it as a special token such as the end of text.
  bool is_special = false;
  bool is_bounded = false;  ///< true: transformers strips blanks next to it or matches it only at word borders
};

/// Returns the words in tokenizer.json's `added_tokens`, tokenizer_config.json's `added_tokens_decoder` and
/// added_tokens.json, by number. Refused: entries without text or number, and a number with two texts.
core::result<std::vector<added_word>> read_added_words(const std::filesystem::path& folder);

struct special_tokens {
  std::optional<uint32_t> begin{}, end{}, unknown{}, separator{}, padding{}, mask{}, end_of_turn{}, end_of_message{};
  std::optional<bool> adds_begin{}, adds_end{},
      adds_separator{};         ///< true if the token is added to each text; nullopt if no file states it
  std::vector<uint32_t> named;  ///< tokens whose text a file names as special
  std::string lost_begin;       ///< text that a file names as the beginning and no token has; empty if `begin` is set
  std::string lost_end;         ///< text that a file names as the end and that no token has; empty if `end` is set
  std::string chat_template;    ///< template that converts a conversation to a text; empty: no file has it
  /// pairs of a name and a chat template, for all templates but the default one
  std::vector<std::pair<std::string, std::string>> other_templates;
};

/// Function that returns the number of the token whose text is the argument; nothing if there is no such token.
using token_finder = std::function<std::optional<uint32_t>(std::string_view)>;

/// Function that returns the text of the token with a number; empty if there is no such token, or no text becomes it.
using token_texts = std::function<std::string_view(uint32_t)>;

/// Checks added words against the vocabulary that they are added to, which errors call `vocabulary`. Refused: a word
/// with two numbers, and a number of another word.
core::result<void> check_added_words(const std::filesystem::path& folder, const std::vector<added_word>& words,
                                     const token_finder& number_of, const token_texts& text_of,
                                     std::string_view vocabulary);

/// Refuses an end of text that a file of `folder` names and no token has. Errors call the vocabulary `vocabulary`. A
/// beginning without a token is not an error here: no text is read with one.
core::result<void> check_end_of_text(const std::filesystem::path& folder, const special_tokens& special,
                                     std::string_view vocabulary);

/// Refuses a beginning or an end of text that a file of `folder` names and no token has, for programs that use both.
core::result<void> check_ends_of_text(const std::filesystem::path& folder, const special_tokens& special,
                                      std::string_view vocabulary);

/// Returns the special tokens of a vocabulary of `tokens` numbers. The order of the files is that of llama.cpp's
/// converter (gguf-py's SpecialVocab): tokenizer_config.json, changed by tokenizer.json's `post_processor`, then
/// config.json's numbers. Tokens that are still missing come from special_tokens_map.json, generation_config.json, the
/// first of a list of numbers, and the words that `post_processor` puts around a text.
core::result<special_tokens> read_special_tokens(const std::filesystem::path& folder, const token_finder& number_of,
                                                 uint64_t tokens);

}  // namespace troupe::data
