// The model WordPiece of tokenizer.json, BERT's: the longest word of the vocabulary at each place of a word.
#include "core/utf8.hpp"
#include "data/tokenizers/words/byte_pair.hpp"
#include "data/tokenizers/words/word_model.hpp"
#include "data/tokenizers/words/word_trie.hpp"

namespace troupe::data {
namespace {

class piece_model final : public word_model {
 public:
  piece_model(const model_words& words, uint32_t unknown, const std::string& prefix, uint64_t most_characters)
      : unknown_(unknown), most_characters_(most_characters), first_(words.text_of) {
    auto inner = words.text_of;
    for (auto& text : inner) text = text.starts_with(prefix) ? text.substr(prefix.size()) : std::string();
    inner_ = word_trie(inner);
  }

  core::result<void> encode(std::string_view word, std::vector<uint32_t>& out) override {
    const bool is_kept = word.size() <= word_cache::longest_word;
    const uint64_t hash = is_kept ? word_cache::hash_of(word) : 0;
    if (is_kept && cache_.append(word, hash, out)) return {};
    tokens_.clear();
    if (!divide(word)) tokens_.assign(1, unknown_);
    out.insert(out.end(), tokens_.begin(), tokens_.end());
    if (is_kept) cache_.keep(word, hash, tokens_);
    return {};
  }

 private:
  bool divide(std::string_view word) {
    uint64_t characters = 0;
    for (size_t at = 0; at < word.size(); at += core::utf8_character(word.substr(at))) ++characters;
    if (characters > most_characters_) return false;
    for (size_t at = 0; at < word.size();) {
      size_t longest = 0;
      uint32_t token = unknown_;
      (at == 0 ? first_ : inner_).for_beginnings(word.substr(at), [&](uint32_t t, size_t bytes) {
        longest = bytes, token = t;
        return true;
      });
      if (longest == 0) return false;
      tokens_.push_back(token);
      at += longest;
    }
    return true;
  }

  uint32_t unknown_;
  uint64_t most_characters_;
  word_trie first_, inner_;  ///< words for the first place of a word, and words for later places, without their prefix
  word_cache cache_;
  std::vector<uint32_t> tokens_;
};

}  // namespace

std::unique_ptr<word_model> make_piece_model(const model_words& words, uint32_t unknown, std::string prefix,
                                             uint64_t most_characters) {
  return std::make_unique<piece_model>(words, unknown, prefix, most_characters);
}

}  // namespace troupe::data
