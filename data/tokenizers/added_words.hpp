// Finds the words of a text that a vocabulary has as whole tokens because somebody added them: <|user|> and the like.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "data/tokenizers/special_tokens.hpp"

namespace troupe::data {

/// Special words, and the end of texts, are ordinary text: no document can forge its own end.
class added_words {
 public:
  added_words() = default;
  added_words(std::vector<added_word> words, std::optional<uint32_t> end_of_text);

  struct place {
    size_t at = 0;
    const added_word* word = nullptr;
  };
  /// The first word at or after `from`, the longest of several that begin there.
  [[nodiscard]] std::optional<place> next(std::string_view text, size_t from) const;
  [[nodiscard]] bool is_empty() const { return words_.empty(); }
  [[nodiscard]] const std::vector<added_word>& words() const { return words_; }
  /// Words and numbers as a text, for digests.
  [[nodiscard]] std::string as_text() const;

 private:
  std::vector<added_word> words_;  ///< the longest first
  std::array<bool, 256> begins_{};
};

/// Why a text with the word cannot be encoded as transformers does; nothing where it can. Long texts are encoded in
/// pieces that may end at a blank.
core::result<void> check_added_word(const added_word& word);

}  // namespace troupe::data
