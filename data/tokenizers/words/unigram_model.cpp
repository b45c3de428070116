// The model Unigram of tokenizer.json: of all divisions of a word into words of the vocabulary, the one with the
// highest sum of scores. Source: Kudo 2018, "Subword regularization".
#include <algorithm>

#include "core/utf8.hpp"
#include "data/tokenizers/words/byte_pair.hpp"
#include "data/tokenizers/words/word_model.hpp"
#include "data/tokenizers/words/word_trie.hpp"

namespace troupe::data {
namespace {

/// Number by which an unknown character's score is below the lowest score of the vocabulary.
constexpr double unknown_penalty = 10;

class unigram_model final : public word_model {
 public:
  unigram_model(const model_words& words, std::optional<uint32_t> unknown, bool has_byte_tokens)
      : token_of_(words.token_of), scores_(words.scores), unknown_(unknown), trie_(words.text_of) {
    if (has_byte_tokens) bytes_ = byte_tokens(words);
    const double lowest = scores_.empty() ? 0 : *std::ranges::min_element(scores_);
    unknown_score_ = lowest - unknown_penalty;
  }

  core::result<void> encode(std::string_view word, std::vector<uint32_t>& out) override {
    const bool is_kept = word.size() <= word_cache::longest_word;
    const uint64_t hash = is_kept ? word_cache::hash_of(word) : 0;
    if (is_kept && cache_.append(word, hash, out)) return {};
    TROUPE_TRY(divide(word));
    tokens_.clear();
    // Collects the words of the best division, the last word first; consecutive unknown characters become one word.
    ends_.clear();
    for (size_t end = word.size(); end > 0; end = best_[end].begin) {
      const bool joins = !ends_.empty() && ends_.back().is_unknown && best_[end].is_unknown;
      if (joins)
        ends_.back().begin = best_[end].begin;
      else
        ends_.push_back({best_[end].begin, end, best_[end].is_unknown});
    }
    for (auto part = ends_.rbegin(); part != ends_.rend(); ++part)
      TROUPE_TRY(add(word.substr(part->begin, part->end - part->begin)));
    out.insert(out.end(), tokens_.begin(), tokens_.end());
    if (is_kept) cache_.keep(word, hash, tokens_);
    return {};
  }

 private:
  struct best_end {
    double score = 0;
    size_t begin = 0;  ///< byte at which the last word begins in the best division of the text before this byte
    bool is_reached = false, is_unknown = false;
  };
  struct part_of_word {
    size_t begin, end;
    bool is_unknown;
  };

  core::result<void> divide(std::string_view word) {
    best_.assign(word.size() + 1, {});
    for (size_t at = 0; at < word.size();) {
      const size_t character = core::utf8_character(word.substr(at));
      const double here = best_[at].score;
      const auto offer = [&](size_t end, double score, bool is_unknown) {
        auto& b = best_[end];
        if (!b.is_reached || score > b.score) b = {score, at, true, is_unknown};
      };
      bool has_character = false;
      trie_.for_beginnings(word.substr(at), [&](uint32_t token, size_t bytes) {
        offer(at + bytes, scores_[token] + here, token == unknown_);
        has_character = has_character || bytes == character;
        return true;
      });
      if (!has_character) {
        if (!unknown_) return core::refused("the vocabulary lacks a character of the text, and has no unk_id");
        offer(at + character, unknown_score_ + here, true);
      }
      at += character;
    }
    return {};
  }

  core::result<void> add(std::string_view part) {
    if (const auto token = token_of_.find(std::string(part)); token != token_of_.end()) {
      tokens_.push_back(token->second);
      return {};
    }
    const auto byte_token = [&](char c) { return bytes_[static_cast<unsigned char>(c)]; };
    if (!bytes_.empty() && std::ranges::all_of(part, [&](char c) { return byte_token(c).has_value(); })) {
      for (const char c : part) tokens_.push_back(*byte_token(c));
      return {};
    }
    if (!unknown_) return core::refused("the vocabulary lacks a character of the text, and has no unk_id");
    tokens_.push_back(*unknown_);
    return {};
  }

  std::unordered_map<std::string, uint32_t> token_of_;
  std::vector<double> scores_;
  std::optional<uint32_t> unknown_;
  double unknown_score_ = 0;
  std::vector<std::optional<uint32_t>> bytes_;  ///< [byte]: token `<0x0A>`; empty if bytes have no tokens
  word_trie trie_;
  word_cache cache_;
  std::vector<best_end> best_;  ///< [byte]: the best division of the word's bytes before this byte
  std::vector<part_of_word> ends_;
  std::vector<uint32_t> tokens_;
};

}  // namespace

std::unique_ptr<word_model> make_unigram_model(const model_words& words, std::optional<uint32_t> unknown,
                                               bool has_byte_tokens) {
  return std::make_unique<unigram_model>(words, unknown, has_byte_tokens);
}

}  // namespace troupe::data
