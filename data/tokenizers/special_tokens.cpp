#include "data/tokenizers/special_tokens.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/text.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;

/// Refuses a folder in which a file names, by `key`, the text `lost` as the token `meaning`, although no token of the
/// vocabulary has this text; an empty `lost` means that there is no such text.
core::result<void> check_found(const fs::path& folder, const std::string& lost, std::string_view meaning,
                               std::string_view key, std::string_view vocabulary) {
  if (lost.empty()) return {};
  return core::refused(
      fmt::format("'{}' names '{}' as the {} token, which is neither in {} nor in added_tokens.json: add it there, or "
                  "name another {} in tokenizer_config.json",
                  folder.string(), core::shown(lost), meaning, vocabulary, key));
}

}  // namespace

core::result<void> check_added_words(const fs::path& folder, const std::vector<added_word>& words,
                                     const token_finder& number_of, const token_texts& text_of,
                                     std::string_view vocabulary) {
  std::map<std::string_view, uint32_t> seen;
  for (const auto& w : words) {
    if (const auto number = number_of(w.text).value_or(w.id); number != w.id)
      return core::refused(fmt::format("'{}': the added token '{}' has number {}, but {} in {}", folder.string(),
                                       core::shown(w.text), w.id, number, vocabulary));
    if (const auto text = text_of(w.id); !text.empty() && text != w.text)
      return core::refused(
          fmt::format("'{}': the added token '{}' has number {}, which '{}' has in {}: give it a "
                      "number of its own",
                      folder.string(), core::shown(w.text), w.id, core::shown(text), vocabulary));
    if (const auto [at, is_new] = seen.emplace(w.text, w.id); !is_new)
      return core::refused(fmt::format("'{}': the added token '{}' has the numbers {} and {}: wanted one of them",
                                       folder.string(), core::shown(w.text), at->second, w.id));
  }
  return {};
}

void add_named_words(const std::vector<uint32_t>& numbers, const token_texts& text_of, std::vector<added_word>& words) {
  for (const uint32_t number : numbers) {
    const std::string_view text = text_of(number);
    if (text.empty() || std::ranges::find(words, number, &added_word::id) != words.end()) continue;
    words.push_back({.text = std::string(text), .id = number, .is_special = true, .is_normalized = false});
  }
}

core::result<void> check_end_of_text(const fs::path& folder, const special_tokens& special,
                                     std::string_view vocabulary) {
  return check_found(folder, special.lost_end, "end-of-text", "eos_token", vocabulary);
}

core::result<void> check_ends_of_text(const fs::path& folder, const special_tokens& special,
                                      std::string_view vocabulary) {
  TROUPE_TRY(check_end_of_text(folder, special, vocabulary));
  return check_found(folder, special.lost_begin, "beginning-of-text", "bos_token", vocabulary);
}

marked_tokens marked_in(const special_tokens& special, const std::vector<added_word>& words) {
  marked_tokens out{.mask = special.mask, .special = special.named};
  for (const auto& word : words)
    if (word.is_special) out.special.push_back(word.id);
  for (const auto& token :
       {special.begin, special.end, special.unknown, special.separator, special.padding, special.mask})
    if (token) out.special.push_back(*token);
  return out;
}

}  // namespace troupe::data
