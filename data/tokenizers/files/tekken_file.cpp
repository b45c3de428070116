#include "data/tokenizers/files/tekken_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "data/tokenizers/files/ranked_words.hpp"
#include "data/tokenizers/files/stored_file.hpp"
#include "data/tokenizers/text/base64.hpp"
#include "data/tokenizers/text/json_keys.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

/// Special tokens of the versions whose files do not list them, in the order of their numbers.
constexpr std::array<std::string_view, 20> unlisted_special{"<unk>",
                                                            "<s>",
                                                            "</s>",
                                                            "[INST]",
                                                            "[/INST]",
                                                            "[AVAILABLE_TOOLS]",
                                                            "[/AVAILABLE_TOOLS]",
                                                            "[TOOL_RESULTS]",
                                                            "[/TOOL_RESULTS]",
                                                            "[TOOL_CALLS]",
                                                            "[IMG]",
                                                            "<pad>",
                                                            "[IMG_BREAK]",
                                                            "[IMG_END]",
                                                            "[PREFIX]",
                                                            "[MIDDLE]",
                                                            "[SUFFIX]",
                                                            "[SYSTEM_PROMPT]",
                                                            "[/SYSTEM_PROMPT]",
                                                            "[TOOL_CONTENT]"};
/// Versions whose files may lack the list of special tokens.
constexpr std::array<std::string_view, 4> unlisted_versions{"v1", "v2", "v3", "v7"};

/// The vocabulary of a tekken.json; `pattern` owns the text of `vocabulary.expression`.
struct tekken_vocabulary {
  std::string pattern;
  ranked_words vocabulary;
};

std::optional<uint64_t> whole_in(const json& from, const char* key) {
  const auto& value = json_value_of(from, key);
  return value.is_number_unsigned() ? std::optional(value.get<uint64_t>()) : std::nullopt;
}

core::result<std::vector<std::string>> special_of(const json& keys, uint64_t count) {
  std::vector<std::string> out;
  const auto& list = json_value_of(keys, "special_tokens");
  const auto version = json_text_of(json_value_of(keys, "config"), "version");
  if (list.is_null()) {
    if (std::ranges::find(unlisted_versions, std::string_view(version)) == unlisted_versions.end())
      return core::refused(
          fmt::format("special_tokens: wanted a list, as version '{}' has, got nothing", core::shown(version)));
    out.assign(unlisted_special.begin(), unlisted_special.end());
  } else if (!list.is_array()) {
    return core::refused("special_tokens: wanted a list");
  } else {
    for (const auto& one : list) {
      if (whole_in(one, "rank") != out.size() || json_text_of(one, "token_str").empty())
        return core::refused(
            fmt::format("special_tokens: wanted rank {} and a token_str in place {}", out.size(), out.size()));
      out.push_back(json_text_of(one, "token_str"));
    }
  }
  if (out.size() > count)
    return core::refused(
        fmt::format("config.default_num_special_tokens: wanted at least {}, got {}", out.size(), count));
  while (out.size() < count) out.push_back(fmt::format("<SPECIAL_{}>", out.size()));
  return out;
}

core::result<tekken_vocabulary> tekken_of(const json& keys) {
  const auto& config = json_value_of(keys, "config");
  const auto& words = json_value_of(keys, "vocab");
  const auto size = whole_in(config, "default_vocab_size"), special = whole_in(config, "default_num_special_tokens");
  tekken_vocabulary out{.pattern = json_text_of(config, "pattern"), .vocabulary = {}};
  if (out.pattern.empty()) return core::refused("config.pattern: wanted a regular expression");
  if (!size || !special || *size > max_vocabulary || *special >= *size)
    return core::refused("config: wanted a default_vocab_size above default_num_special_tokens, both whole numbers");
  if (!words.is_array() || words.size() < *size - *special)
    return core::refused(fmt::format("vocab: wanted a list of at least {} words", *size - *special));
  for (const auto& one : words) {
    auto& list = out.vocabulary.words;
    if (list.size() == *size - *special) break;
    auto bytes = from_base64(json_text_of(one, "token_bytes"));
    if (!bytes || bytes->empty() || whole_in(one, "rank") != list.size())
      return core::refused(
          fmt::format("vocab: wanted rank {} and token_bytes in base64 in place {}", list.size(), list.size()));
    list.push_back(std::move(*bytes));
  }
  TROUPE_ASSIGN(auto texts, special_of(keys, *special));
  for (auto& text : texts)
    out.vocabulary.special.emplace_back(static_cast<uint32_t>(out.vocabulary.special.size()), std::move(text));
  out.vocabulary.first_token = static_cast<uint32_t>(*special);
  return out;
}

}  // namespace

core::result<json> tekken_pipeline(const fs::path& file) {
  TROUPE_ASSIGN(const auto text, stored_text(file));
  TROUPE_ASSIGN(const auto keys, object_in_text(file, text));
  auto found = tekken_of(keys);
  if (!found) return fail(found.error().in(fmt::format("'{}'", file.string())));
  found->vocabulary.expression = found->pattern;
  auto out = pipeline_of(found->vocabulary);
  if (!out) return fail(out.error().in(fmt::format("'{}'", file.string())));
  return out;
}

core::result<json> tekken_configuration(const fs::path& file) {
  TROUPE_ASSIGN(auto out, stored_object_if_there(file.parent_path() / "tokenizer_config.json"));
  if (out.is_null()) out = json::object();
  for (const auto& [key, text] :
       {std::pair{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}})
    if (json_value_of(out, key).is_null()) out[key] = text;
  if (!out.contains("add_bos_token")) out["add_bos_token"] = true;
  return out;
}

}  // namespace troupe::data
