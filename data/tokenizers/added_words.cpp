#include "data/tokenizers/added_words.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"

namespace troupe::data {

added_words::added_words(std::vector<added_word> words, std::optional<uint32_t> end_of_text)
    : words_(std::move(words)) {
  std::erase_if(words_, [&](const added_word& w) { return w.text.empty() || w.is_special || w.id == end_of_text; });
  std::ranges::stable_sort(words_, [](const auto& a, const auto& b) { return a.text.size() > b.text.size(); });
  for (const auto& w : words_) begins_[static_cast<unsigned char>(w.text[0])] = true;
}

std::optional<added_words::place> added_words::next(std::string_view text, size_t from) const {
  if (words_.empty()) return std::nullopt;
  for (size_t at = from; at < text.size(); ++at) {
    if (!begins_[static_cast<unsigned char>(text[at])]) continue;
    for (const auto& w : words_)
      if (text.substr(at).starts_with(w.text)) return place{at, &w};
  }
  return std::nullopt;
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
  for (const auto& w : words_) out += fmt::format("{} {}\n", w.id, w.text);
  return out;
}

core::result<void> check_added_word(const added_word& w) {
  const bool has_blank = w.text.find_first_of(" \t\r\n") != std::string::npos;
  if (!w.is_bounded && !has_blank) return {};
  return core::refused(
      fmt::format("the text has the added token '{}', {}: such tokens are not supported yet; remove it from the text "
                  "or from the tokenizer's files",
                  core::shown(w.text),
                  has_blank ? "which contains blanks" : "which also matches blanks or word borders next to it"));
}

}  // namespace troupe::data
