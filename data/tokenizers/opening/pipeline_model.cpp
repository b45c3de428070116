#include "data/tokenizers/opening/pipeline_model.hpp"

#include <fmt/format.h>

#include "core/text.hpp"
#include "data/tokenizers/opening/merge_lines.hpp"
#include "data/tokenizers/text/json_keys.hpp"

namespace troupe::data {
namespace {

/// Returns a merge as the text `left right`; newer files write a merge as a pair of texts.
std::string merge_text(const nlohmann::json& merge) {
  if (merge.is_string()) return merge;
  if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) return {};
  return fmt::format("{} {}", merge[0].get<std::string>(), merge[1].get<std::string>());
}

}  // namespace

std::optional<std::string> objection_to_marks(const nlohmann::json& model) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const auto mark = json_text_of(model, key); !mark.empty())
      return fmt::format("model.{}: wanted none, as in GPT-2's, got '{}'", key, core::shown(mark));
  return std::nullopt;
}

std::optional<std::string> objection_to_merging(const nlohmann::json& model) {
  const auto& dropout = json_value_of(model, "dropout");
  if (dropout.is_number() && dropout.get<double>() != 0)
    return fmt::format("model.dropout: wanted null, since random merges are not supported, got {}", dropout.dump());
  return std::nullopt;
}

std::optional<std::string> difference_to_files(const nlohmann::json& model,
                                               const std::unordered_map<std::string, uint32_t>& numbers,
                                               std::string_view merges) {
  const auto& words = json_value_of(model, "vocab");
  if (words.is_object())
    for (const auto& [word, number] : words.items())
      if (const auto at = numbers.find(word); at != numbers.end() && number != at->second)
        return fmt::format("model.vocab: the word '{}' has number {}, but {} in the vocab.json next to it",
                           core::shown(word), number.dump(), at->second);
  const auto& list = json_value_of(model, "merges");
  if (!list.is_array()) return std::nullopt;
  merge_lines lines(merges);
  for (size_t i = 0;; ++i) {
    const auto line = lines.next();
    if (!line && i == list.size()) return std::nullopt;
    const auto text = i < list.size() ? merge_text(list[i]) : std::string();
    if (!line || i == list.size() || text != *line)
      return fmt::format("model.merges: number {} is {}, but {} in the merges.txt next to it", i + 1,
                         i < list.size() ? fmt::format("'{}'", core::shown(text)) : "missing",
                         line ? fmt::format("'{}'", core::shown(*line)) : "missing");
  }
}

}  // namespace troupe::data
