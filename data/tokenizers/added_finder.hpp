// Finds added words with all their marks in texts and in what a normalizer made of them: which blanks they take, and
// whether they must stand alone.
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
  /// The texts of `words` are those that are sought; words without text are left out.
  explicit added_finder(std::vector<added_word> words);

  [[nodiscard]] bool is_empty() const { return words_.empty(); }

  /// Returns the words in `text`, of which more follows unless `is_end`, and sets `known` to the size of the beginning
  /// of `text` in which further text can add no word. As in the package `tokenizers`, the longest of several words
  /// counts, and one that must stand alone and does not keeps its text from others.
  [[nodiscard]] std::vector<place> find(std::string_view text, bool is_end, size_t& known) const;

  /// False if a text in parts may have other words than the whole: a word that must stand alone and does not keeps its
  /// text from a word that begins within it, which a later part could find.
  [[nodiscard]] bool may_divide_texts() const { return may_divide_texts_; }
  /// True if a word has its text at byte `at` of `text`.
  [[nodiscard]] bool begins_at(std::string_view text, size_t at) const { return longest_at(text, at) != nullptr; }

 private:
  [[nodiscard]] const added_word* longest_at(std::string_view text, size_t at) const;

  std::vector<added_word> words_;        ///< by their first byte, the longest first
  std::array<size_t, 257> begins_at_{};  ///< [byte]: index of the first word that begins with this byte or a later one
  size_t longest_ = 0;                   ///< size of the longest word
  bool takes_left_ = false, begins_with_blank_ = false, may_divide_texts_ = true;
};

}  // namespace troupe::data
