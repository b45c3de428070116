// Finds in a text the words that were added to a trained vocabulary, such as <|user|>: each of them is a whole token.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "data/tokenizers/special_tokens.hpp"
#include "data/tokenizers/text/text_rules.hpp"

namespace troupe::data {

/// Finds added words in a text as the package `tokenizers` does: first those that are not normalized, then the
/// normalized ones in the text between them. Words that are marked as special, and the end-of-text word, are found only
/// if the object was made with special_words::tokens; else they are read as ordinary text.
class added_words {
 public:
  added_words() = default;
  added_words(std::vector<added_word> words, std::optional<uint32_t> end_of_text,
              special_words special = special_words::ordinary);

  struct place {
    size_t at = 0;
    const added_word* word = nullptr;
  };
  /// Returns the first added word in `text` at or after byte `from`, which must be 0 or the end of the word before.
  [[nodiscard]] std::optional<place> next(std::string_view text, size_t from) const;
  /// Returns the number of bytes from a place on that decide whether an added word begins there.
  [[nodiscard]] size_t seen_bytes() const;
  /// True if an added word begins before byte `at` of `text` and ends after it.
  [[nodiscard]] bool lies_across(std::string_view text, size_t at) const;
  [[nodiscard]] bool is_empty() const { return words_.empty(); }
  [[nodiscard]] const std::vector<added_word>& words() const { return words_; }
  /// Returns the added words, their token numbers and marks as a text, from which digests are computed; empty without
  /// words. Words that are not normalized are marked in it if the list also has normalized words.
  [[nodiscard]] std::string as_text() const;

 private:
  [[nodiscard]] std::span<const added_word> verbatim() const { return std::span(words_).first(verbatim_); }
  [[nodiscard]] std::span<const added_word> normalized() const { return std::span(words_).subspan(verbatim_); }

  /// words that are not normalized, then the normalized ones; each kind with the longest first
  std::vector<added_word> words_;
  size_t verbatim_ = 0;  ///< number of words that are not normalized
  std::array<bool, 256> begins_{};
};

/// Refuses a folder that has normalized added words and whose rules compose characters first, because added_words finds
/// words in the text as it is, before characters are composed.
core::result<void> check_rules_of_added_words(const std::filesystem::path& folder, std::span<const added_word> words,
                                              const text_rules& rules);

/// Refuses a word that contains blanks, or whose match depends on the text around it, with the reason: texts with such
/// a word cannot yet be encoded as in transformers.
core::result<void> check_added_word(const added_word& word);

}  // namespace troupe::data
