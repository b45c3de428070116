#include "data/tokenizers/text/json_keys.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"

namespace troupe::data {
namespace {

constexpr std::string_view a_flag = "true or false", a_text = "a text", a_count = "a number from 0";

/// Returns the type that the value of a key of a step or model must have, for error messages; empty for keys that their
/// readers check.
std::string_view wanted_of_step(std::string_view key) {
  for (const std::string_view flag :
       {"add_prefix_space", "use_regex", "trim_offsets", "invert", "individual_digits", "split", "strip_left",
        "strip_right", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase", "cleanup", "byte_fallback",
        "fuse_unk", "ignore_merges"})
    if (key == flag) return a_flag;
  for (const std::string_view text :
       {"type", "prepend", "content", "prefix", "suffix", "precompiled_charsmap", "replacement", "prepend_scheme",
        "behavior", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"})
    if (key == text) return a_text;
  for (const std::string_view count : {"max_input_chars_per_word", "start", "stop"})
    if (key == count) return a_count;
  return {};
}

std::string shown_value(const nlohmann::json& value) {
  return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, 40);
}

}  // namespace

const nlohmann::json& json_value_of(const nlohmann::json& from, const char* key) {
  static const nlohmann::json none;
  if (!from.is_object()) return none;
  const auto at = from.find(key);
  return at == from.end() ? none : *at;
}

std::string json_text_of(const nlohmann::json& from, const char* key) {
  const auto& value = json_value_of(from, key);
  if (value.is_string()) return value;
  const auto& content = json_value_of(value, "content");
  return content.is_string() ? content.get<std::string>() : std::string();
}

bool json_flag_of(const nlohmann::json& from, const char* key, bool otherwise) {
  const auto& value = json_value_of(from, key);
  return value.is_boolean() ? value.get<bool>() : otherwise;
}

core::result<void> check_known_keys(const nlohmann::json& part, std::initializer_list<std::string_view> known) {
  if (!part.is_object()) return {};
  for (const auto& [key, value] : part.items()) {
    if (value.is_null()) continue;
    if (std::ranges::find(known, std::string_view(key)) == known.end())
      return core::refused(fmt::format("the key '{}' is not known", core::shown(key)));
    const auto wanted = wanted_of_step(key);
    const bool is_right = wanted.empty() || (wanted == a_flag && value.is_boolean()) ||
                          (wanted == a_text && value.is_string()) || (wanted == a_count && value.is_number_unsigned());
    if (!is_right) return core::refused(fmt::format("{}: wanted {}, got {}", key, wanted, shown_value(value)));
  }
  return {};
}

}  // namespace troupe::data
