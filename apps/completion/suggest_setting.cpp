// Suggests `key=value` from the table of keys.

#include "apps/completion/suggest.hpp"

#include <fmt/format.h>

#include "config/keys/key_table.hpp"

namespace troupe::apps {
namespace {

using config::key_info;
using config::value_type;

std::vector<std::string> values_of(const key_info& row) {
  const auto texts = [](const std::vector<std::string_view>& from) {
    return std::vector<std::string>(from.begin(), from.end());
  };
  if (!row.support.only.empty()) return texts(row.support.only);
  if (row.type == value_type::boolean) return {"true", "false"};
  if (!row.choices.names.empty() && row.type != value_type::number_list) return texts(row.choices.names);
  if (row.type == value_type::dtype) return {"fp32", "bf16", "fp16", "fp64"};
  constexpr double most_listed = 16;
  if (row.type == value_type::integer && row.range.least && row.range.most &&
      *row.range.most - *row.range.least <= most_listed) {
    std::vector<std::string> out;
    for (auto v = static_cast<int64_t>(*row.range.least); v <= static_cast<int64_t>(*row.range.most); ++v)
      out.push_back(fmt::to_string(v));
    return out;
  }
  const bool has_default = row.default_text != "none" && row.default_text != "derived" &&
                           row.default_text.find_first_of(" \"") == std::string::npos;
  return has_default ? std::vector<std::string>{row.default_text} : std::vector<std::string>{};
}

}  // namespace

std::vector<suggestion> suggest_setting(std::string_view typed) {
  std::vector<suggestion> out;
  const size_t equals = typed.find('=');
  if (equals != std::string_view::npos) {
    const std::string_view key = typed.substr(0, equals);
    const size_t dot = key.rfind('.');
    const std::string_view section = dot == std::string_view::npos ? "" : key.substr(0, dot);
    const key_info* const row = config::key_in(section, key.substr(dot == std::string_view::npos ? 0 : dot + 1));
    if (row == nullptr || row->type == value_type::section) return out;
    const std::string before(typed.substr(0, equals + 1));
    const std::string value(typed.substr(equals + 1));
    if (row->type == value_type::path) return suggest_files(value, before);
    for (const std::string& one : values_of(*row))
      if (one.starts_with(value)) out.push_back({before + one, one == row->default_text ? "the default" : ""});
    return out;
  }
  const size_t dot = typed.rfind('.');
  const std::string_view section = dot == std::string_view::npos ? "" : typed.substr(0, dot);
  for (const key_info& row : config::key_table()) {
    if (row.section() != section || row.name() == "*" || !row.key.starts_with(typed)) continue;
    if (!row.deprecation.empty() || !row.support.refusal.empty()) continue;
    const bool is_section = row.type == value_type::section && !row.is_list();
    out.push_back(
        {std::string(row.is_list() ? row.list_name() : row.key) + (is_section ? "." : "="), std::string(row.meaning)});
  }
  return out;
}

}  // namespace troupe::apps
