// The model BPE of tokenizer.json: characters or bytes become symbols, and neighbours are merged by rank.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/text.hpp"
#include "core/utf8.hpp"
#include "data/tokenizers/text/byte_alphabet.hpp"
#include "data/tokenizers/words/byte_pair.hpp"
#include "data/tokenizers/words/word_model.hpp"
#include "data/tokenizers/words/word_trie.hpp"

namespace troupe::data {
namespace {

class pair_model final : public word_model {
 public:
  pair_model(const model_words& words, merge_table merges, pair_options options)
      : options_(std::move(options)), merges_(std::move(merges)), bytes_(byte_tokens(words)) {
    const byte_alphabet alphabet;
    auto texts = words.text_of;
    if (options_.is_byte_level)
      for (auto& text : texts) text = bytes_in(alphabet, text);
    for (uint32_t t = 0; t < texts.size() && options_.takes_whole_words; ++t)
      if (!texts[t].empty()) whole_.emplace(texts[t], t);
    if (options_.is_byte_level)
      for (uint32_t b = 0; b < 256; ++b)
        for (const bool is_first : {false, true})
          for (const bool is_last : {false, true})
            of_byte_[is_first][is_last][b] =
                words.find((is_first ? "" : options_.prefix) + alphabet.word_of(b) + (is_last ? options_.suffix : ""));
    if (can_divide()) all_ = word_trie(texts);
    if (!options_.is_byte_level) symbols_ = words.token_of;
  }

  core::result<void> encode(std::string_view word, std::vector<uint32_t>& out) override {
    const bool is_kept = word.size() <= word_cache::longest_word;
    const uint64_t hash = is_kept ? word_cache::hash_of(word) : 0;
    if (is_kept && cache_.append(word, hash, out)) return {};
    tokens_.clear();
    const auto whole = options_.takes_whole_words ? whole_.find(std::string(word)) : whole_.end();
    if (whole != whole_.end()) {
      tokens_.push_back(whole->second);
    } else {
      TROUPE_TRY(options_.is_byte_level ? add_bytes(word) : add_characters(word));
      merge_word(merges_, tokens_);
    }
    out.insert(out.end(), tokens_.begin(), tokens_.end());
    if (is_kept) cache_.keep(word, hash, tokens_);
    return {};
  }

  [[nodiscard]] bool may_divide(std::string_view word, size_t at) const override {
    if (!can_divide() || at == 0 || at + all_.longest() > word.size()) return false;
    // A known symbol ends a run of unknown characters, which may become one token.
    if (!options_.is_byte_level) {
      const auto next = word.substr(at);
      if (core::utf8_character(next) == 0 ||
          !symbols_.contains(std::string(next.substr(0, core::utf8_character(next)))))
        return false;
    }
    return !all_.has_word_across(word, at);
  }

 private:
  /// True if no word's tokens depend on the places at which the word begins and ends, and neighbours of a byte that is
  /// left out cannot merge over it.
  [[nodiscard]] bool can_divide() const {
    return !options_.takes_whole_words && options_.prefix.empty() && options_.suffix.empty() &&
           (!options_.is_byte_level || options_.unknown ||
            std::ranges::all_of(of_byte_[0][0], [](const auto& token) { return token.has_value(); }));
  }

  /// True if bytes without a token are left out, as the package `tokenizers` does it. A missing form of a byte at the
  /// begin or end of a word is refused instead.
  [[nodiscard]] bool can_lose_bytes() const { return options_.prefix.empty() && options_.suffix.empty(); }

  /// Returns the bytes that a word of the vocabulary represents; empty if it contains a character that represents no
  /// byte.
  static std::string bytes_in(const byte_alphabet& alphabet, const std::string& word) {
    auto out = alphabet.bytes_of(word);
    const bool is_visible = std::ranges::all_of(word, [](char c) { return c >= '!' && c <= '~'; });
    return out == word && !is_visible ? std::string() : out;
  }

  core::result<void> add_bytes(std::string_view word) {
    for (size_t i = 0; i < word.size(); ++i) {
      const auto& token = of_byte_[i == 0][i + 1 == word.size()][static_cast<unsigned char>(word[i])];
      if (!token && !options_.unknown && can_lose_bytes()) continue;
      if (!token && !options_.unknown)
        return core::refused(fmt::format("the vocabulary has no token for byte {:#04x} where it lies in '{}'",
                                         static_cast<unsigned>(static_cast<unsigned char>(word[i])),
                                         core::shown(word)));
      tokens_.push_back(token ? *token : *options_.unknown);
    }
    return {};
  }

  core::result<void> add_characters(std::string_view word) {
    bool has_unknown = false;  // true: the token for an unknown character is still to be added
    for (size_t i = 0; i < word.size();) {
      const size_t bytes = core::utf8_character(word.substr(i));
      const bool is_last = i + bytes == word.size();
      std::string symbol(word.substr(i, bytes));
      if (i > 0) symbol.insert(0, options_.prefix);
      if (is_last) symbol += options_.suffix;
      i += bytes;
      if (const auto token = symbols_.find(symbol); token != symbols_.end()) {
        if (has_unknown) tokens_.push_back(*options_.unknown);
        has_unknown = false;
        tokens_.push_back(token->second);
        continue;
      }
      if (options_.has_byte_tokens && std::ranges::all_of(symbol, [&](char c) { return byte_token(c).has_value(); })) {
        // The package `tokenizers` also adds a pending unknown token only before the next known character.
        for (const char c : symbol) tokens_.push_back(*byte_token(c));
        continue;
      }
      if (!options_.unknown)
        return core::refused(
            fmt::format("the vocabulary has no token for '{}', and none for unknown characters", core::shown(symbol)));
      if (has_unknown && !options_.fuses_unknown) tokens_.push_back(*options_.unknown);
      has_unknown = true;
    }
    if (has_unknown) tokens_.push_back(*options_.unknown);
    return {};
  }

  [[nodiscard]] const std::optional<uint32_t>& byte_token(char c) const {
    return bytes_[static_cast<unsigned char>(c)];
  }

  pair_options options_;
  merge_table merges_;
  std::vector<std::optional<uint32_t>> bytes_;  ///< [byte]: token `<0x0A>` of the byte
  /// [text of a symbol]: its token, if words consist of characters
  std::unordered_map<std::string, uint32_t> symbols_;
  std::unordered_map<std::string, uint32_t> whole_;  ///< [word]: its token, if the whole word is one token
  /// [is first][is last][byte]: token of the byte at that position of a word
  std::array<std::array<std::array<std::optional<uint32_t>, 256>, 2>, 2> of_byte_{};
  /// all words of the vocabulary that merges may make
  word_trie all_;
  word_cache cache_;
  std::vector<uint32_t> tokens_;
};

}  // namespace

core::result<std::unique_ptr<word_model>> make_pair_model(
    const model_words& words, const std::vector<std::pair<std::string, std::string>>& merges, pair_options options) {
  merge_table table(merges.size() + 1);
  uint32_t rank = 0;
  for (const auto& [left, right] : merges) {
    const auto both = left + (right.starts_with(options.prefix) ? right.substr(options.prefix.size()) : right);
    const auto a = words.find(left), b = words.find(right), to = words.find(both);
    if (!a || !b || !to)
      return core::refused(fmt::format("merges: '{} {}' uses words that are not in the vocabulary", core::shown(left),
                                       core::shown(right)));
    if (!table.add(*a, *b, {rank++, *to}))
      return core::refused(fmt::format("merges: '{} {}' occurs twice", core::shown(left), core::shown(right)));
  }
  return std::make_unique<pair_model>(words, std::move(table), std::move(options));
}

}  // namespace troupe::data
