// Byte-level byte-pair encoding, as GPT-2's: words of the text (word_cutter) become bytes, and neighbours are merged in
// the order of merges.txt until no pair is left. Owns the table of merges and the loop; leaves reading the files to
// opening/byte_pair_files.hpp. Source: Sennrich, Haddow, Birch 2016, "Neural machine translation of rare words with
// subword units", on bytes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/text/word_cutter.hpp"
#include "data/tokenizers/tokenizer.hpp"
#include "data/tokenizers/words/added_words.hpp"

namespace troupe::data {

/// Maps a pair of tokens to the token that replaces it. A hash table with open addressing, at most half full.
class merge_table {
 public:
  struct merge {
    uint32_t rank = no_rank;  ///< line in merges.txt, from 0; merges with a lower rank are done first
    uint32_t token = 0;       ///< number of the token that replaces the pair
  };
  static constexpr uint32_t no_rank = ~uint32_t{0};

  explicit merge_table(size_t merges);
  /// Adds a merge; returns false if the pair already has one. Must be called at most `merges` times.
  bool add(uint32_t left, uint32_t right, merge to);
  [[nodiscard]] merge find(uint32_t left, uint32_t right) const;

 private:
  struct slot {
    uint64_t pair = ~uint64_t{0};
    merge to;
  };
  [[nodiscard]] size_t place_of(uint64_t pair) const;
  std::vector<slot> slots_;
};

/// Stands for the token of a byte that has none.
inline constexpr uint32_t no_byte_token = ~uint32_t{0};

/// A byte-level vocabulary: the contents of vocab.json, merges.txt and the folder's added words.
struct byte_pair_vocabulary {
  std::vector<std::string> bytes_of;  ///< [token]: its bytes; empty for numbers without a token
  /// [byte]: token of the single byte; no_byte_token: texts lose this byte.
  std::array<uint32_t, 256> token_of{};
  merge_table merges{0};
  added_words added{};  ///< words that were added to the vocabulary, each of which is one token
  text_rules rules{};   ///< rules by which texts are prepared
};

/// Largest number of tokens of a word whose pairs merge_word() searches again for each merge. For longer words it uses
/// a heap, so that the time stays near linear.
inline constexpr size_t scanned_word_tokens = 32;
/// Merges the tokens of one word in place, by rank; among equal ranks the leftmost pair is merged first.
void merge_word(const merge_table& merges, std::vector<uint32_t>& tokens);

/// Cache of the tokens of recent words; a new word replaces the word at the same position of the table. At most 4 MiB.
class word_cache {
 public:
  static constexpr size_t places = size_t{1} << 16;
  static constexpr size_t longest_word = 26, most_tokens = 9;

  /// Returns the number by which append() and keep() find a word of at most longest_word bytes.
  [[nodiscard]] static uint64_t hash_of(std::string_view word);
  [[nodiscard]] bool append(std::string_view word, uint64_t hash, std::vector<uint32_t>& out) const;
  void keep(std::string_view word, uint64_t hash, std::span<const uint32_t> tokens);

 private:
  struct entry {
    uint8_t length = 0, tokens = 0;
    std::array<char, longest_word> word;
    std::array<uint32_t, most_tokens> token;
  };
  std::vector<entry> entries_ = std::vector<entry>(places);
};

/// Returns the digest that identifies a tokenizer: of its words in the order of their tokens, its merges in the order
/// of their ranks, its added words, and those of its rules that differ from the usual ones of its pattern.
std::string vocabulary_digest(const std::vector<std::string>& words, const std::vector<std::string>& merges,
                              const added_words& added, const text_rules& rules);

/// Makes a tokenizer from lists, as model files contain them: words by token in the byte alphabet, merges `left right`
/// by rank. The token `end_of_text` follows each document; if it is missing, the word <|endoftext|> is used. Words in
/// `added` are written as their own text. Refused: a vocabulary that lacks bytes that texts
/// need (byte_alphabet::fault_without()), merges of missing words or into
/// missing words, and a merge that occurs twice.
core::result<std::unique_ptr<tokenizer>> byte_pair_of(const std::vector<std::string>& words,
                                                      const std::vector<std::string>& merges,
                                                      std::optional<uint32_t> end_of_text = {}, added_words added = {},
                                                      const text_rules& rules = {});

/// Makes a tokenizer of the vocabulary, which prepares texts by the vocabulary's rules. Bytes that are not valid UTF-8
/// form words of their own, so that decoding restores every text.
core::result<std::unique_ptr<tokenizer>> make_byte_pair(byte_pair_vocabulary vocabulary,
                                                        tokenizer_description description);

}  // namespace troupe::data
