// Merges the tokens of words by the table of merges, and implements the byte-pair tokenizer.
#include "data/tokenizers/words/byte_pair.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <queue>
#include <string_view>
#include <unordered_map>

#include "core/math.hpp"
#include "core/utf8.hpp"

namespace troupe::data {
namespace {

constexpr uint64_t no_pair = ~uint64_t{0};
constexpr uint32_t no_rank = merge_table::no_rank;

uint64_t pair_of(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

/// Merges the tokens of a word: repeatedly searches all pairs for the one with the lowest rank and merges it. The
/// fastest way for a short word.
void merge_by_scan(const merge_table& merges, std::vector<uint32_t>& tokens) {
  std::array<merge_table::merge, scanned_word_tokens> to;  // [i]: merge of tokens i and i + 1
  size_t n = tokens.size();
  for (size_t i = 0; i + 1 < n; ++i) to[i] = merges.find(tokens[i], tokens[i + 1]);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i)
      if (to[i].rank < to[best].rank) best = i;
    if (to[best].rank == no_rank) break;
    tokens[best] = to[best].token;
    for (size_t i = best + 1; i + 1 < n; ++i) {
      tokens[i] = tokens[i + 1];
      to[i - 1] = to[i];
    }
    --n;
    if (best > 0) to[best - 1] = merges.find(tokens[best - 1], tokens[best]);
    if (best + 1 < n) to[best] = merges.find(tokens[best], tokens[best + 1]);
  }
  tokens.resize(n);
}

/// Merges the tokens of a word in order of rank, with a heap of possible merges over a linked list of tokens. A merge
/// that has become impossible stays in the heap, and is recognised by its outdated rank.
void merge_by_heap(const merge_table& merges, std::vector<uint32_t>& tokens) {
  constexpr uint32_t none = ~uint32_t{0};
  struct node {
    uint32_t before, after;
    merge_table::merge to;  // merge of this node's token with the next node's token
  };
  assert(tokens.size() < none);
  const auto n = static_cast<uint32_t>(tokens.size());
  std::vector<node> list(n);
  // Rank of a merge in the upper bits, position of its left token below.
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> heap;
  const auto consider = [&](uint32_t i) {
    auto& x = list[i];
    x.to = x.after == none ? merge_table::merge{} : merges.find(tokens[i], tokens[x.after]);
    if (x.to.rank != no_rank) heap.push(pair_of(x.to.rank, i));
  };
  for (uint32_t i = 0; i < n; ++i) {
    list[i] = {i == 0 ? none : i - 1, i + 1 < n ? i + 1 : none, {}};
    consider(i);
  }
  while (!heap.empty()) {
    const auto rank = static_cast<uint32_t>(heap.top() >> 32);
    const auto i = static_cast<uint32_t>(heap.top());
    heap.pop();
    if (list[i].to.rank != rank) continue;
    tokens[i] = list[i].to.token;
    const uint32_t gone = list[i].after;
    list[i].after = list[gone].after;
    list[gone].to.rank = no_rank;
    if (list[i].after != none) list[list[i].after].before = i;
    consider(i);
    if (list[i].before != none) consider(list[i].before);
  }
  size_t kept = 0;
  for (uint32_t i = 0; i != none; i = list[i].after) tokens[kept++] = tokens[i];
  tokens.resize(kept);
}

/// The beginning of a text in the form in which words are cut from it (composed or unchanged), and the places at which
/// it may be divided.
class composed_text {
 public:
  /// Prepares `text`, which is valid UTF-8 and may continue. If `rules` do not compose, words are cut from the
  /// unchanged text.
  composed_text(std::string_view text, const text_rules& rules)
      : composes_(rules.composes), tables_(rules.tables), from_(text) {
    if (!composes_) return;
    // Further text may be composed with the last character that stands apart and the characters after it, so these are
    // omitted.
    size_t last = from_.size();
    do {
      if (last == 0) break;
      last = core::utf8_begin_before(from_, last);
    } while (!stands_apart(from_.substr(last)));
    from_ = from_.substr(0, last);
    made_ = composed(from_, tables_);
  }

  [[nodiscard]] std::string_view text() const { return made_ ? *made_ : from_; }

  /// Returns the place in the original text that corresponds to byte `at` of text(); nullopt if the text may not be
  /// divided there. Successive calls must not decrease `at`.
  std::optional<size_t> place_of(size_t at) {
    if (!composes_) return at;
    if (!made_) return at == from_.size() || stands_apart(from_.substr(at)) ? std::optional(at) : std::nullopt;
    while (made_at_ < at) {
      size_t end = from_at_;
      do {
        end += core::utf8_character(from_.substr(end));
      } while (end < from_.size() && !stands_apart(from_.substr(end)));
      const auto stretch = from_.substr(from_at_, end - from_at_);
      const auto of_stretch = composed(stretch, tables_);
      made_at_ += of_stretch ? of_stretch->size() : stretch.size();
      from_at_ = end;
    }
    return made_at_ == at ? std::optional(from_at_) : std::nullopt;
  }

 private:
  bool composes_;
  form_tables tables_;
  std::string_view from_;
  std::optional<std::string> made_;
  size_t from_at_ = 0, made_at_ = 0;  ///< one place of division, as bytes of from_ and of made_
};

class byte_pair_tokenizer final : public tokenizer {
 public:
  byte_pair_tokenizer(byte_pair_vocabulary v, tokenizer_description d, word_cutter cutter)
      : vocabulary_(std::move(v)), cutter_(std::move(cutter)) {
    description_ = std::move(d);
    if (vocabulary_.rules.takes_whole_words)
      for (uint32_t token = 0; token < vocabulary_.bytes_of.size(); ++token)
        whole_words_.emplace(vocabulary_.bytes_of[token], token);
  }

  core::result<void> encode(std::string_view text, std::vector<uint32_t>& out) override {
    TROUPE_TRY(encode_part({.text = text}, out));
    return {};
  }

  core::result<size_t> encode_part(const text_part& part, std::vector<uint32_t>& out) override {
    const std::string_view text = part.text;
    // Added words are searched only before this place, because one that begins later may end in text that is not known
    // yet.
    const size_t known = part.is_end ? text.size() : known_bytes(text);
    size_t at = 0;
    while (at < known) {
      auto added = vocabulary_.added.next(text, at);
      if (added && added->at >= known) added.reset();
      const auto between = text.substr(at, (added ? added->at : known) - at);
      TROUPE_ASSIGN(const size_t n, encode_words(between, !added && !part.is_end, out));
      at += n;
      if (!added) break;
      TROUPE_TRY(check_added_word(*added->word));
      out.push_back(added->word->id);
      at += added->word->text.size();
    }
    return at;
  }

  [[nodiscard]] std::string decode(std::span<const uint32_t> ids) const override {
    std::string out;
    for (const uint32_t id : ids)
      if (id < vocabulary_.bytes_of.size()) out += vocabulary_.bytes_of[id];
    return out;
  }

 private:
  [[nodiscard]] size_t known_bytes(std::string_view text) const {
    const size_t unknown = std::max<size_t>(vocabulary_.added.seen_bytes(), 1) - 1;
    return core::utf8_whole(text.substr(0, text.size() - std::min(text.size(), unknown)));
  }

  /// Encodes text between added words and returns the bytes that were encoded: all of them, or, if further text may
  /// follow (`is_open`), those whose tokens do not depend on it.
  core::result<size_t> encode_words(std::string_view text, bool is_open, std::vector<uint32_t>& out) {
    size_t done = 0;
    while (done < text.size()) {
      const auto rest = text.substr(done);
      const auto sound = rest.substr(0, core::utf8_prefix(rest));
      if (is_open && sound.size() == rest.size()) {
        TROUPE_ASSIGN(const size_t n, encode_beginning(sound, out));
        return done + n;
      }
      TROUPE_TRY(encode_whole(sound, out));
      size_t broken = sound.size();
      while (broken < rest.size() && core::utf8_character(rest.substr(broken)) == 0) ++broken;
      if (is_open && broken == rest.size()) return done + sound.size();
      if (broken > sound.size()) add_word(rest.substr(sound.size(), broken - sound.size()), out);
      done += broken;
    }
    return done;
  }

  core::result<void> encode_whole(std::string_view sound, std::vector<uint32_t>& out) {
    const auto made = vocabulary_.rules.composes ? composed(sound, vocabulary_.rules.tables) : std::nullopt;
    const std::string_view words = made ? *made : sound;
    for (size_t at = 0; at < words.size();) {
      TROUPE_ASSIGN(const auto n, cutter_.next(words, at));
      add_word(words.substr(at, n), out);
      at += n;
    }
    return {};
  }

  /// Encodes the words at the beginning of `sound` that no further text can change, and returns the number of their
  /// bytes.
  core::result<size_t> encode_beginning(std::string_view sound, std::vector<uint32_t>& out) {
    composed_text words(sound, vocabulary_.rules);
    size_t done = 0, tokens = out.size();
    for (size_t at = 0; at < words.text().size();) {
      TROUPE_ASSIGN(const auto n, cutter_.next_whatever_follows(words.text(), at));
      if (!n) break;
      add_word(words.text().substr(at, *n), out);
      at += *n;
      if (const auto place = words.place_of(at)) done = *place, tokens = out.size();
    }
    out.resize(tokens);
    return done;
  }

  void add_word(std::string_view word, std::vector<uint32_t>& out) {
    const bool short_enough = word.size() <= word_cache::longest_word;
    const uint64_t hash = short_enough ? word_cache::hash_of(word) : 0;
    if (short_enough && cache_.append(word, hash, out)) return;
    tokens_.clear();
    if (const auto whole = whole_words_.find(word); whole != whole_words_.end()) {
      out.push_back(whole->second);
      return;
    }
    for (const char c : word)
      if (const uint32_t token = vocabulary_.token_of[static_cast<unsigned char>(c)]; token != no_byte_token)
        tokens_.push_back(token);
    merge_word(vocabulary_.merges, tokens_);
    out.insert(out.end(), tokens_.begin(), tokens_.end());
    if (short_enough) cache_.keep(word, hash, tokens_);
  }

  byte_pair_vocabulary vocabulary_;
  word_cutter cutter_;
  /// [bytes]: the token with these bytes, if whole words are taken from the vocabulary; the bytes are those of
  /// vocabulary_.
  std::unordered_map<std::string_view, uint32_t> whole_words_;
  word_cache cache_;
  std::vector<uint32_t> tokens_;
};

}  // namespace

merge_table::merge_table(size_t merges) : slots_(std::bit_ceil(std::max<size_t>(merges, 1) * 2)) {}

size_t merge_table::place_of(uint64_t pair) const {
  size_t at = core::mix64(pair) & (slots_.size() - 1);
  while (slots_[at].pair != pair && slots_[at].pair != no_pair) at = (at + 1) & (slots_.size() - 1);
  return at;
}

bool merge_table::add(uint32_t left, uint32_t right, merge to) {
  auto& s = slots_[place_of(pair_of(left, right))];
  if (s.pair != no_pair) return false;
  s = {pair_of(left, right), to};
  return true;
}

merge_table::merge merge_table::find(uint32_t left, uint32_t right) const {
  return slots_[place_of(pair_of(left, right))].to;
}

void merge_word(const merge_table& merges, std::vector<uint32_t>& tokens) {
  if (tokens.size() <= scanned_word_tokens)
    merge_by_scan(merges, tokens);
  else
    merge_by_heap(merges, tokens);
}

uint64_t word_cache::hash_of(std::string_view word) {
  uint64_t hash = word.size();
  for (; word.size() >= 8; word.remove_prefix(8)) {
    uint64_t eight;
    std::memcpy(&eight, word.data(), 8);
    hash = (hash ^ eight) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 32;
  }
  uint64_t rest = 0;
  std::memcpy(&rest, word.data(), word.size());
  return core::mix64(hash ^ rest);
}

bool word_cache::append(std::string_view word, uint64_t hash, std::vector<uint32_t>& out) const {
  const auto& e = entries_[hash % places];
  if (e.length != word.size() || std::memcmp(e.word.data(), word.data(), word.size()) != 0) return false;
  out.insert(out.end(), e.token.begin(), e.token.begin() + e.tokens);
  return true;
}

void word_cache::keep(std::string_view word, uint64_t hash, std::span<const uint32_t> tokens) {
  if (word.size() > longest_word || tokens.size() > most_tokens) return;
  auto& e = entries_[hash % places];
  e.length = static_cast<uint8_t>(word.size());
  e.tokens = static_cast<uint8_t>(tokens.size());
  std::copy(word.begin(), word.end(), e.word.begin());
  std::copy(tokens.begin(), tokens.end(), e.token.begin());
}

core::result<std::unique_ptr<tokenizer>> make_byte_pair(byte_pair_vocabulary vocabulary,
                                                        tokenizer_description description) {
  TROUPE_ASSIGN(auto cutter, word_cutter::make(vocabulary.rules.words));
  return std::make_unique<byte_pair_tokenizer>(std::move(vocabulary), std::move(description), std::move(cutter));
}

}  // namespace troupe::data
