// Finds added words in texts, before or after a normalizer has changed them. Applies the words' marks: which blanks a
// word takes, and whether it must stand alone.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/special_tokens.hpp"

namespace troupe::data {

class added_finder {
 public:
  /// An added word in a text, with the blanks that it takes.
  struct place {
    size_t begin = 0, end = 0;
    uint32_t token = 0;
  };

  added_finder() = default;
  /// Prepares the search for the texts of `words`; words without text are left out.
  explicit added_finder(std::vector<added_word> words);

  [[nodiscard]] bool is_empty() const { return words_.empty(); }

  /// Returns the added words in `text`; `is_end` is false if more text may follow. Sets `known` to the length of the
  /// beginning of `text` whose added words no further text can change. As in the package `tokenizers`, the longest word
  /// at a place counts; a word that must stand alone but touches another word is no match, and no other added word is
  /// found in its text.
  [[nodiscard]] std::vector<place> find(std::string_view text, bool is_end, size_t& known) const;

  /// False if a text that is searched in parts may yield other words than the whole text: if a word that must stand
  /// alone is no match, the words that begin inside it must not be found either, but a part that begins inside it would
  /// find them.
  [[nodiscard]] bool may_divide_texts() const { return may_divide_texts_; }
  /// True if the text of an added word begins at byte `at` of `text`.
  [[nodiscard]] bool begins_at(std::string_view text, size_t at) const { return longest_at(text, at) != nullptr; }

 private:
  [[nodiscard]] const added_word* longest_at(std::string_view text, size_t at) const;

  /// added words, ordered by their first byte, then by descending length
  std::vector<added_word> words_;
  std::array<size_t, 257> begins_at_{};  ///< [byte]: index of the first word that begins with this byte or a later one
  size_t longest_ = 0;                   ///< size of the longest word
  bool takes_left_ = false, begins_with_blank_ = false, may_divide_texts_ = true;
};

}  // namespace troupe::data
