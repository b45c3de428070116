// GPT-2's byte-level byte-pair encoding: words of the text (word_cutter) become bytes, and neighbours are merged in the
// order of merges.txt until no pair is left. Owns the table of merges and the loop; byte_pair_files reads the files.
// Source: Sennrich, Haddow, Birch 2016, "Neural machine translation of rare words with subword units", on bytes.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizers/added_words.hpp"
#include "data/tokenizers/tokenizer.hpp"
#include "data/tokenizers/word_cutter.hpp"

namespace troupe::data {

/// The token that a pair becomes, by the pair. Open addressing, at most half full.
class merge_table {
 public:
  struct merge {
    uint32_t rank = no_rank;  ///< its line in merges.txt, from 0: the lower, the earlier it is done
    uint32_t token = 0;       ///< that takes the pair's place
  };
  static constexpr uint32_t no_rank = ~uint32_t{0};

  explicit merge_table(size_t merges);
  /// False where the pair is there already. At most `merges` calls.
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

/// The contents of vocab.json and merges.txt.
struct byte_pair_vocabulary {
  std::vector<std::string> bytes_of;     ///< of each token; empty where the numbers have a gap
  std::array<uint32_t, 256> token_of{};  ///< of each single byte
  merge_table merges{0};
  added_words added{};  ///< words of a text that are one token each
};

/// Merges the tokens of one word in place, by rank, equal ranks from the left. Words up to `scanned_word_tokens` are
/// searched anew for each merge, longer ones through a heap: the time stays near linear.
inline constexpr size_t scanned_word_tokens = 32;
void merge_word(const merge_table& merges, std::vector<uint32_t>& tokens);

/// Words with their tokens; a new one takes the place of whichever had it. Bounded by construction: 4 MiB.
class word_cache {
 public:
  static constexpr size_t places = size_t{1} << 16;
  static constexpr size_t longest_word = 26, most_tokens = 9;

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

/// Reads both files; see open_tokenizer.
core::result<std::unique_ptr<tokenizer>> open_byte_pair(const std::filesystem::path& vocab,
                                                        const std::filesystem::path& merges);

/// The same from lists, as files of models carry them: words by token in the byte alphabet, merges `left right` by
/// rank. Text of a byte that no word stands for becomes token 0. `end_of_text` stands behind each document; without it
/// the word <|endoftext|> does. Words in `added` are their own text. Refused: merges of or into words that are not
/// there.
core::result<std::unique_ptr<tokenizer>> byte_pair_of(const std::vector<std::string>& words,
                                                      const std::vector<std::string>& merges,
                                                      std::optional<uint32_t> end_of_text = {}, added_words added = {});

/// A tokenizer of that vocabulary, for words cut by GPT-2's pattern. Bytes that are no sound UTF-8 form words of their
/// own, so that every text comes back as it was.
core::result<std::unique_ptr<tokenizer>> make_byte_pair(byte_pair_vocabulary vocabulary,
                                                        tokenizer_description description);

}  // namespace troupe::data
