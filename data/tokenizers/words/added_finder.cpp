#include "data/tokenizers/words/added_finder.hpp"

#include <algorithm>

#include "core/utf8.hpp"
#include "data/tokenizers/text/characters.hpp"

namespace troupe::data {
namespace {

bool is_of(const character_set& set, std::string_view text, size_t at) {
  return core::utf8_character(text.substr(at)) > 0 && set.has(core::utf8_code(text.substr(at)));
}

/// Returns the byte at which the blanks begin that end before byte `at`; at least `least`.
size_t blanks_before(std::string_view text, size_t at, size_t least) {
  while (at > least && is_of(white_space(), text, core::utf8_begin_before(text, at)))
    at = core::utf8_begin_before(text, at);
  return std::max(at, least);
}

size_t blanks_after(std::string_view text, size_t at) {
  while (at < text.size() && is_of(white_space(), text, at)) at += core::utf8_character(text.substr(at));
  return at;
}

}  // namespace

added_finder::added_finder(std::vector<added_word> words) : words_(std::move(words)) {
  std::erase_if(words_, [](const added_word& w) { return w.text.empty(); });
  const auto first = [](const added_word& w) { return static_cast<unsigned char>(w.text[0]); };
  std::ranges::stable_sort(words_, [&](const auto& a, const auto& b) {
    return first(a) != first(b) ? first(a) < first(b) : a.text.size() > b.text.size();
  });
  for (const auto& w : words_) {
    ++begins_at_[first(w) + size_t{1}];
    longest_ = std::max(longest_, w.text.size());
    takes_left_ = takes_left_ || w.takes_left;
    begins_with_blank_ = begins_with_blank_ || is_of(white_space(), w.text, 0);
  }
  for (size_t byte = 1; byte < begins_at_.size(); ++byte) begins_at_[byte] += begins_at_[byte - 1];
  for (const auto& w : words_)
    for (size_t at = 1; w.is_single && at < w.text.size(); ++at) {
      const std::string_view rest = std::string_view(w.text).substr(at);
      const auto begins_within = [&](const added_word& other) {
        return other.text.starts_with(rest) || rest.starts_with(other.text);
      };
      may_divide_texts_ = may_divide_texts_ && std::ranges::none_of(words_, begins_within);
    }
}

const added_word* added_finder::longest_at(std::string_view text, size_t at) const {
  if (at >= text.size()) return nullptr;
  const auto rest = text.substr(at);
  const auto byte = static_cast<unsigned char>(rest[0]);
  for (size_t i = begins_at_[byte]; i < begins_at_[byte + size_t{1}]; ++i)
    if (rest.starts_with(words_[i].text)) return &words_[i];
  return nullptr;
}

std::vector<added_finder::place> added_finder::find(std::string_view text, bool is_end, size_t& known) const {
  std::vector<place> out;
  known = text.size();
  if (words_.empty()) return out;
  // A word that begins before `known` ends within `text`, and so does the character after it.
  constexpr size_t longest_character = 4;
  if (!is_end) known -= std::min(known, longest_ + longest_character - 1);
  size_t taken = 0;
  for (size_t at = 0; at < known;) {
    const auto* word = longest_at(text, at);
    if (word == nullptr) {
      ++at;
      continue;
    }
    const size_t end = at + word->text.size();
    const bool touches = (at > 0 && is_of(word_characters(), text, core::utf8_begin_before(text, at))) ||
                         (end < text.size() && is_of(word_characters(), text, end));
    if (word->is_single && touches) {
      at = end;
      continue;
    }
    size_t begin = word->takes_left ? blanks_before(text, at, taken) : at;
    // A word that begins with a blank may begin in the blanks that the previous word has taken.
    if (begin < taken) out.back().end = taken = begin = std::max(begin, out.back().begin);
    const size_t last = std::max(begin, word->takes_right ? blanks_after(text, end) : end);
    if (!is_end && last == text.size()) {  // more blanks may follow
      known = at;
      break;
    }
    // The package drops a word of blanks, all of which the previous word has taken.
    if (begin < last) out.push_back({begin, last, word->id});
    taken = last;
    at = end;
  }
  if (is_end) return out;
  if (known < taken && begins_with_blank_) {  // a word may begin in the blanks that the previous word has taken
    known = out.back().begin;
    out.pop_back();
    taken = out.empty() ? 0 : out.back().end;
  }
  known = core::utf8_whole(text.substr(0, known));
  if (takes_left_ && known > taken) known = blanks_before(text, known, taken);
  known = std::max(known, taken);
  return out;
}

}  // namespace troupe::data
