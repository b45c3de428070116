// The special tokens, added words and chat templates of a vocabulary, and the checks of them. Reading them from files
// is the task of opening/special_token_files.hpp.
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
  bool takes_left = false;   ///< true: the word takes the blanks before it (`lstrip`)
  bool takes_right = false;  ///< true: the word takes the blanks after it (`rstrip`)
  bool is_single = false;    ///< true: the word is found only if no letter or other character of words is next to it
  /// False: a file has `"normalized": false` for the word, so that it is found before the normalized words.
  bool is_normalized = true;
};

struct special_tokens {
  std::optional<uint32_t> begin{}, end{}, unknown{}, separator{}, padding{}, mask{}, end_of_turn{}, end_of_message{};
  std::optional<bool> adds_begin{}, adds_end{},
      adds_separator{};  ///< whether transformers adds the token to each text; nullopt if no file states it
  /// Numbers of the tokens whose text any file of the tokenizer's folder names as a special token.
  std::vector<uint32_t> named;
  /// Text that a file of the tokenizer's folder names as the beginning-of-text token but that no token has; empty if
  /// `begin` is set.
  std::string lost_begin;
  /// Text that a file of the tokenizer's folder names as the end-of-text token but that no token has; empty if `end` is
  /// set.
  std::string lost_end;
  std::string chat_template;  ///< template that converts a conversation to a text; empty: no file has it
  /// pairs of a name and a chat template, for all templates but the default one
  std::vector<std::pair<std::string, std::string>> other_templates;
};

/// How a tokenizer encodes the text of a special token within a text. ordinary: as any other text, so that no document
/// can contain its own end; tokens: as that token, which texts made by a chat template need.
enum class special_words : uint8_t { ordinary, tokens };

/// The tokens of a vocabulary that are no part of a text.
struct marked_tokens {
  std::optional<uint32_t> mask{};   ///< token that replaces the tokens which an encoder has to find
  std::vector<uint32_t> special{};  ///< tokens that any file of the folder calls special, in any order
};

/// Returns the tokens that `special` names, and those `words` that are marked as special.
marked_tokens marked_in(const special_tokens& special, const std::vector<added_word>& words);

/// Function that returns the number of the token whose text is the argument; nothing if there is no such token.
using token_finder = std::function<std::optional<uint32_t>(std::string_view)>;

/// Function that returns the text of the token with the given number; empty if there is no such token, or if no text is
/// encoded to the token.
using token_texts = std::function<std::string_view(uint32_t)>;

/// Adds the tokens `numbers` to `words` as special words, unless they are among them: transformers finds each token in
/// a text that a file of the folder names as special.
void add_named_words(const std::vector<uint32_t>& numbers, const token_texts& text_of, std::vector<added_word>& words);

/// Checks added words against the vocabulary to which they are added; errors call it by the text `vocabulary`. Refused:
/// a word with two numbers, and a number that another word has.
core::result<void> check_added_words(const std::filesystem::path& folder, const std::vector<added_word>& words,
                                     const token_finder& number_of, const token_texts& text_of,
                                     std::string_view vocabulary);

/// Refuses a folder in which a file names an end-of-text token that the vocabulary lacks; errors call the vocabulary by
/// the text `vocabulary`. A missing beginning-of-text token is not an error here, because texts are encoded without
/// one.
core::result<void> check_end_of_text(const std::filesystem::path& folder, const special_tokens& special,
                                     std::string_view vocabulary);

/// Refuses a folder in which a file names a beginning-of-text or end-of-text token that the vocabulary lacks, for
/// programs that use both tokens.
core::result<void> check_ends_of_text(const std::filesystem::path& folder, const special_tokens& special,
                                      std::string_view vocabulary);

}  // namespace troupe::data
