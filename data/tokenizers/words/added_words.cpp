#include "data/tokenizers/words/added_words.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"

namespace troupe::data {
namespace {

/// Returns the first of `words`, which are ordered by descending length, with which `text` begins; null if there is
/// none.
const added_word* longest_at_begin(std::string_view text, std::span<const added_word> words) {
  const auto found = std::ranges::find_if(words, [&](const auto& w) { return text.starts_with(w.text); });
  return found == words.end() ? nullptr : &*found;
}

}  // namespace

added_words::added_words(std::vector<added_word> words, std::optional<uint32_t> end_of_text, special_words special)
    : words_(std::move(words)) {
  std::erase_if(words_, [&](const added_word& w) {
    return w.text.empty() || (special == special_words::ordinary && (w.is_special || w.id == end_of_text));
  });
  std::ranges::stable_sort(words_, [](const auto& a, const auto& b) { return a.text.size() > b.text.size(); });
  const auto normalized = std::ranges::stable_partition(words_, [](const auto& w) { return !w.is_normalized; });
  verbatim_ = words_.size() - normalized.size();
  for (const auto& w : words_) begins_[static_cast<unsigned char>(w.text[0])] = true;
}

std::optional<added_words::place> added_words::next(std::string_view text, size_t from) const {
  if (words_.empty()) return std::nullopt;
  for (size_t at = from; at < text.size(); ++at) {
    if (!begins_[static_cast<unsigned char>(text[at])]) continue;
    if (const auto* word = longest_at_begin(text.substr(at), verbatim())) return place{at, word};
    const auto* word = longest_at_begin(text.substr(at), normalized());
    if (word == nullptr) continue;
    // A word that is not normalized takes its bytes first, so a normalized word must end before it.
    size_t end = at + 1;
    while (end < at + word->text.size() && longest_at_begin(text.substr(end), verbatim()) == nullptr) ++end;
    word = longest_at_begin(text.substr(at, end - at), normalized());
    if (word != nullptr) return place{at, word};
  }
  return std::nullopt;
}

size_t added_words::seen_bytes() const {
  // A normalized word is decided by its own bytes and by those of a word that is not normalized and begins within it.
  // The first word of each kind is the longest one.
  const auto longest = [](std::span<const added_word> words) { return words.empty() ? 0 : words.front().text.size(); };
  return longest(verbatim()) + longest(normalized());
}

bool added_words::lies_across(std::string_view text, size_t at) const {
  return std::ranges::any_of(words_, [&](const added_word& w) {
    for (size_t begin = at - std::min(at, w.text.size() - 1); begin < at; ++begin)
      if (text.substr(begin).starts_with(w.text)) return true;
    return false;
  });
}

std::string added_words::as_text() const {
  std::string out;
  const char* const mark = normalized().empty() ? "" : "v";
  for (const auto& w : words_)
    out += fmt::format("{}{}{}{}{} {}\n", w.id, w.is_normalized ? "" : mark, w.takes_left ? "l" : "",
                       w.takes_right ? "r" : "", w.is_single ? "s" : "", w.text);
  return out;
}

core::result<void> check_rules_of_added_words(const std::filesystem::path& folder, std::span<const added_word> words,
                                              const text_rules& rules) {
  if (!rules.composes) return {};
  const auto word = std::ranges::find_if(words, [](const added_word& w) { return w.is_normalized && !w.is_special; });
  if (word == words.end()) return {};
  return core::refused(fmt::format(
      "'{}': the added token '{}' is normalized, and the tokenizer composes characters (NFC): such tokens are "
      "not supported; mark it with \"normalized\": false if it may be found before characters are composed",
      folder.string(), core::shown(word->text)));
}

core::result<void> check_added_word(const added_word& w) {
  const bool has_blank = w.text.find_first_of(" \t\r\n") != std::string::npos;
  if (!w.takes_left && !w.takes_right && !w.is_single && !has_blank) return {};
  return core::refused(
      fmt::format("the text has the added token '{}', {}: such tokens are not supported yet; remove it from the text "
                  "or from the tokenizer's files",
                  core::shown(w.text),
                  has_blank ? "which contains blanks" : "which also matches blanks or word borders next to it"));
}

}  // namespace troupe::data
