// The rules by which a byte-level tokenizer prepares a text before it merges bytes: how words are cut, and how
// characters are composed. Owns the table of the patterns that Troupe knows, and the reading of these rules from
// tokenizer.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "data/tokenizers/text/characters.hpp"

namespace troupe::data {

/// A way to cut a text into words.
enum class word_pattern : uint8_t {
  gpt2,
  smollm,  ///< GPT-2's pattern, with each digit a word of its own
  llama3,  ///< a word takes one sign before it; up to three digits are a word; line breaks end a word
  qwen2,   ///< Llama 3's pattern, with each digit a word of its own
  gpt4o,   ///< Llama 3's with marks, contractions and changes from small to capital letters inside words
  tekken,  ///< GPT-4o's pattern without contractions, with each digit a word of its own
};

struct text_rules {
  word_pattern words = word_pattern::gpt2;
  /// True: characters are composed first (Unicode's normalisation form C).
  bool composes = false;
  /// The tables by which characters are composed. Unused, and unicode_9, if they are not composed.
  form_tables tables = form_tables::unicode_9;
  /// True: a word that the vocabulary contains becomes one token, even if the merges do not produce it
  /// (`ignore_merges`).
  bool takes_whole_words = false;

  bool operator==(const text_rules&) const = default;
};

/// Returns llama.cpp's name for the pattern: gpt-2, smollm, llama-bpe, qwen2, gpt-4o or tekken.
std::string_view name_of(word_pattern pattern);
/// Returns the pattern that llama.cpp calls `name`; nullopt if Troupe does not know it.
std::optional<word_pattern> word_pattern_named(std::string_view name);
/// Returns the regular expression of the pattern as tokenizer.json may have it.
std::string_view written_expression_of(word_pattern pattern);
/// Returns the regular expression of the pattern, for PCRE2.
std::string expression_of(word_pattern pattern);

/// Returns the rules of the model families that cut words by the pattern, for GGUF files, which name only the pattern.
text_rules usual_rules(word_pattern pattern);
/// Returns the rules that differ from the usual ones of their pattern, as a text for digests; empty if none differs.
std::string unusual_rules(const text_rules& rules);

/// Returns the kind of tokenizers with these rules for tokenizer_description: "gpt2", or the pattern's name for other
/// patterns.
std::string kind_of(const text_rules& rules);

/// Returns the normalizer NFC with the tables, for a tokenizer.json that is made in memory. The package `tokenizers`
/// has one set of tables and no key for them; the made key `tables` names form_tables::current.
nlohmann::json composing_normalizer(form_tables tables);
/// Returns the tables of a normalizer NFC as composing_normalizer() makes it; nullopt for any other normalizer.
std::optional<form_tables> tables_of_normalizer(const nlohmann::json& normalizer);

/// Returns the rules in the object of a tokenizer.json, the file `path`. Refused: a normalizer or a pre_tokenizer that
/// is not known, with both shown.
core::result<text_rules> text_rules_of(const std::filesystem::path& path, const nlohmann::json& pipeline);

/// True if Unicode never composes the character at the start of `text` with a character before it, and never moves it
/// before one: the text before it and the text from it on are composed separately. `text` is valid UTF-8. False for
/// marks, and for vowels and finals of Hangul.
bool stands_apart(std::string_view text);

/// True if a character whose first byte is `first` may be composed with the character before it. False for all
/// characters below U+0300.
constexpr bool may_be_composed(char first) {
  constexpr unsigned char first_byte_of_marks = 0xCC;
  return static_cast<unsigned char>(first) >= first_byte_of_marks;
}

/// Returns `text`, which is valid UTF-8, with characters composed by the tables (Unicode's normalisation form C);
/// nullopt if they are composed already.
std::optional<std::string> composed(std::string_view text, form_tables tables);

}  // namespace troupe::data
