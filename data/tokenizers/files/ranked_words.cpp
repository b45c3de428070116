#include "data/tokenizers/files/ranked_words.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/text.hpp"
#include "data/tokenizers/files/named_rules.hpp"
#include "data/tokenizers/files/word_merges.hpp"
#include "data/tokenizers/text/byte_alphabet.hpp"
#include "data/tokenizers/text/text_rules.hpp"

namespace troupe::data {

core::result<nlohmann::json> pipeline_of(const ranked_words& v) {
  using nlohmann::json;
  const byte_alphabet alphabet;
  std::vector<std::string> letters;
  json vocabulary = json::object(), added = json::array(), merges = json::array();
  const auto add = [&](const std::string& word, uint64_t token) -> core::result<void> {
    if (vocabulary.emplace(word, token).second) return {};
    return core::refused(fmt::format("the word '{}' occurs twice, also as number {}", core::shown(word), token));
  };
  for (const auto& word : v.words) {
    std::string text;
    for (const char c : word) text += alphabet.word_of(static_cast<unsigned char>(c));
    TROUPE_TRY(add(text, v.first_token + letters.size()));
    letters.push_back(std::move(text));
  }
  for (const auto& [token, text] : v.special) {
    TROUPE_TRY(add(text, token));
    added.push_back({{"id", token},
                     {"content", text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  for (const auto& [left, right] : merges_into(v.words)) merges.push_back(letters[left] + " " + letters[right]);
  json out{
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", std::move(added)},
      {"normalizer", nullptr},
      {"pre_tokenizer", pre_tokenizer_of(v.expression)},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}}};
  if (v.composes) out["normalizer"] = composing_normalizer(*v.composes);
  out["model"] = byte_pair_model(std::move(vocabulary), std::move(merges));
  out["model"]["ignore_merges"] = true;
  return out;
}

}  // namespace troupe::data
