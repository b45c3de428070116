// Finds the words of a vocabulary with which a text begins.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::data {

/// A trie of words, which are any bytes.
class word_trie {
 public:
  word_trie() = default;
  /// Makes the trie of `words`, whose index is their number. Empty words are left out; of equal ones the last counts.
  explicit word_trie(const std::vector<std::string>& words);

  /// Calls `each` with the number and the size of every word with which `text` begins, the shortest first, until `each`
  /// returns false.
  void for_beginnings(std::string_view text, auto&& each) const {
    uint32_t at = 0;
    for (size_t i = 0; i < text.size() && !nodes_.empty(); ++i) {
      at = child_of(at, static_cast<unsigned char>(text[i]));
      if (at == none) return;
      if (nodes_[at].word != none && !each(nodes_[at].word, i + 1)) return;
    }
  }

  /// True if a word occurs in `text` that begins before byte `at` and ends after it.
  [[nodiscard]] bool has_word_across(std::string_view text, size_t at) const;
  /// Returns the size of the longest word.
  [[nodiscard]] size_t longest() const { return longest_; }

 private:
  static constexpr uint32_t none = ~uint32_t{0};
  struct node {
    uint32_t children = 0, count = 0;  ///< the nodes that follow this one, in the order of their bytes
    uint32_t word = none;
  };
  [[nodiscard]] uint32_t child_of(uint32_t at, unsigned char byte) const;

  std::vector<node> nodes_;
  std::vector<unsigned char> bytes_;  ///< [node]: the byte that leads to it
  size_t longest_ = 0;
};

}  // namespace troupe::data
