#include "data/chat/chat_format.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/number.hpp"
#include "core/source_file.hpp"
#include "core/text.hpp"
#include "data/templates/chat_template.hpp"
#include "data/tokenizers/files/made_files.hpp"
#include "data/tokenizers/files/tokenizer_folder.hpp"
#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "data/tokenizers/opening/special_token_files.hpp"
#include "data/tokenizers/text/json_keys.hpp"

namespace troupe::data {
namespace {

constexpr const char* default_name = "default";
constexpr const char* tools_name = "tool_use";
constexpr const char* template_file = "chat_template.jinja";

/// Returns the folder with the files of the tokenizer at `place`; for a file that contains a whole tokenizer, that file
/// (made_files.hpp).
std::filesystem::path folder_of_tokenizer(const std::filesystem::path& place) {
  if (auto file = tokenizer_file_at(place); !file.empty()) return file;
  std::error_code ec;
  return std::filesystem::is_directory(place, ec) ? place : place.parent_path();
}

/// Returns the texts of special tokens by transformers' names: those that tokenizer_config.json names, and, if that
/// file lists no added tokens, those of special_tokens_map.json. A token that no file names is no variable, so that a
/// template writes nothing for it.
core::result<nlohmann::ordered_json> names_of_tokens(const std::filesystem::path& folder) {
  constexpr std::array keys{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
  TROUPE_ASSIGN(const auto config, read_json_if_there(folder / "tokenizer_config.json"));
  const bool has_words = !json_value_of(config, "added_tokens_decoder").is_null();
  TROUPE_ASSIGN(const auto map, has_words ? core::result<nlohmann::json>(nlohmann::json())
                                          : read_json_if_there(folder / "special_tokens_map.json"));
  auto out = nlohmann::ordered_json::object();
  for (const char* key : keys)
    for (const auto* from : {&config, &map})
      if (const auto text = json_text_of(*from, key); !text.empty() && !out.contains(key)) out[key] = text;
  return out;
}

/// True for a text of the form YYYY-MM-DD with a month and a day that exist in some year.
bool is_date(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return false;
  const auto year = core::number_of<uint32_t>(text.substr(0, 4)), month = core::number_of<uint32_t>(text.substr(5, 2)),
             day = core::number_of<uint32_t>(text.substr(8, 2));
  return year && *year >= 1 && month && *month >= 1 && *month <= 12 && day && *day >= 1 && *day <= 31;
}

struct template_text {
  std::string name, source;
};

/// Returns the templates of a tokenizer's folder. transformers prefers chat_template.jinja to tokenizer_config.json.
core::result<std::vector<template_text>> templates_in(const std::filesystem::path& folder) {
  const token_finder finds_none = [](std::string_view) { return std::optional<uint32_t>(); };
  TROUPE_ASSIGN(const auto special, read_special_tokens(folder, finds_none, 0));
  std::vector<template_text> out;
  std::error_code ec;
  if (std::filesystem::exists(folder / template_file, ec)) {
    TROUPE_ASSIGN(auto source, core::read_file(folder / template_file, max_chat_template_bytes));
    out.push_back({default_name, std::move(source)});
  } else if (!special.chat_template.empty()) {
    out.push_back({default_name, special.chat_template});
  }
  for (const auto& [name, source] : special.other_templates) out.push_back({name, source});
  return out;
}

}  // namespace

core::result<void> chat_format::add_template(const std::string& name, std::string_view source) {
  auto made = chat_template::parse(name, source);
  if (!made) return core::fail(made.error());
  digest_ = digest_of({digest_, "\n", source});
  reads_time_ = reads_time_ || source.find("strftime_now") != std::string_view::npos;
  templates_.push_back({name, std::make_shared<const chat_template>(std::move(*made))});
  return {};
}

core::result<chat_format> chat_format::open(const std::filesystem::path& place, const std::string& wanted,
                                            const std::string& date) {
  if (!date.empty() && !is_date(date))
    return core::refused(fmt::format("data.chat_date: wanted a date such as 2026-01-31, got {}", core::shown(date)));
  const kept_files kept;
  chat_format out;
  out.date_ = date;
  out.digest_ = date;
  TROUPE_ASSIGN(auto opened, open_tokenizer(place, special_words::tokens));
  out.tokenizer_ = std::move(opened);
  const auto folder = folder_of_tokenizer(place);
  auto names = nlohmann::ordered_json::object();
  if (!place.empty()) {
    TROUPE_ASSIGN(names, names_of_tokens(folder));
  }
  out.token_names_ = std::make_shared<const nlohmann::ordered_json>(std::move(names));
  if (wanted == joined_template) return out;
  if (std::string_view(wanted).ends_with(".jinja")) {
    TROUPE_ASSIGN(const auto source, core::read_file(wanted, max_chat_template_bytes));
    TROUPE_TRY(out.add_template(wanted, source));
    out.templates_.front().name = default_name;
    return out;
  }
  std::vector<template_text> found;
  if (!place.empty()) {
    TROUPE_ASSIGN(found, templates_in(folder));
  }
  if (found.empty())
    return core::refused(
        place.empty()
            ? std::string("wanted a chat template (data.chat_template: FILE.jinja), because the tokenizer `bytes` has "
                          "none")
            : fmt::format("'{}' has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json): "
                          "name one by data.chat_template: FILE.jinja, or, for prompts with completions, {}",
                          place.string(), joined_template));
  std::vector<std::string> all;
  for (const auto& one : found) all.push_back(one.name);
  if (!wanted.empty()) std::erase_if(found, [&](const template_text& one) { return one.name != wanted; });
  const bool has_default = std::ranges::find(found, default_name, &template_text::name) != found.end();
  if (found.empty() || (wanted.empty() && !has_default && found.size() > 1))
    return core::refused(
        fmt::format("'{}': wanted the name of one of its chat templates as data.chat_template ({}), or a file whose "
                    "name ends in .jinja, got {}",
                    place.string(), fmt::join(all, ", "), wanted.empty() ? "nothing" : core::shown(wanted)));
  for (const auto& one : found)
    if (auto ok = out.add_template(fmt::format("{}: chat template '{}'", place.string(), one.name), one.source); !ok)
      return core::fail(ok.error());
  for (size_t i = 0; i < found.size(); ++i) out.templates_[i].name = found.size() == 1 ? default_name : found[i].name;
  return out;
}

const chat_template* chat_format::template_for(bool has_tools) const {
  const named_template* out = nullptr;
  for (const auto& one : templates_) {
    if (one.name == default_name && out == nullptr) out = &one;
    if (has_tools && one.name == tools_name) out = &one;
  }
  return out == nullptr ? nullptr : out->made.get();
}

}  // namespace troupe::data
