#include "config/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "config/values.hpp"

namespace troupe::config {

void reporter::add(diagnostic::severity_kind severity, place at, std::string key, std::string text) {
  if (severity == diagnostic::error) ++errors_;
  if (items_.size() < most_diagnostics)
    items_.push_back({severity, at, std::move(key), std::move(text)});
  else
    ++left_out_;
}

void reporter::warn(place at, std::string key, std::string text) {
  add(strict ? diagnostic::error : diagnostic::warning, at, std::move(key), std::move(text));
}

std::vector<diagnostic> reporter::in_order(diagnostic::severity_kind severity) const {
  std::vector<item> sorted;
  for (const item& i : items_)
    if (i.severity == severity) sorted.push_back(i);
  std::stable_sort(sorted.begin(), sorted.end(), [](const item& a, const item& b) {
    return std::tie(a.at.source, a.at.line, a.at.column) < std::tie(b.at.source, b.at.line, b.at.column);
  });
  std::vector<diagnostic> out;
  for (item& i : sorted) {
    const source& from = sources.at(i.at.source);
    const bool placed = from.kind != source::override_text;
    out.push_back(
        {severity, from.name, placed ? i.at.line : 0, placed ? i.at.column : 0, std::move(i.key), std::move(i.text)});
  }
  if (left_out_ > 0 && !out.empty())
    out.push_back({severity, sources.at(0).name, 0, 0, "", fmt::format("{} more were left out", left_out_)});
  return out;
}

const setting* settings::value_of(std::string_view key) const {
  const auto it = given.find(key);
  return it == given.end() || it->second.value == nullptr ? nullptr : &it->second;
}

std::string settings::text_of(std::string_view key) const {
  if (const setting* s = value_of(key)) {
    if (const auto flag = boolean_in(*s->value)) return *flag ? "true" : "false";
    return s->value->text;
  }
  const key_info* row = key_named(key);
  return row == nullptr ? "" : row->default_text;
}

double settings::number_of(std::string_view key) const {
  const node read{.kind = node_kind::plain, .at = {}, .text = text_of(key), .items = {}, .entries = {}};
  return number_in(read).value_or(0);
}

bool settings::is_auto(std::string_view key) const {
  const auto it = given.find(key);
  return it != given.end() && it->second.is_auto;
}

place settings::where(std::string_view key) const {
  if (const auto it = given.find(key); it != given.end()) return it->second.at;
  if (const auto it = sections.find(key); it != sections.end()) return it->second;
  for (size_t dot = key.rfind('.'); dot != std::string_view::npos && dot > 0; dot = key.rfind('.', dot - 1))
    if (const auto it = sections.find(key.substr(0, dot)); it != sections.end()) return it->second;
  return root;
}

void settings::override_with(settings other) {
  for (const auto& [list, count] : other.lists) {
    const auto within = [&](const auto& item) { return item.first.starts_with(list + "["); };
    std::erase_if(given, within);
    std::erase_if(sections, within);
    std::erase_if(refused, [&](const std::string& key) { return key.starts_with(list + "["); });
    lists[list] = count;
  }
  for (auto& [key, s] : other.given) given[key] = std::move(s);
  for (auto& [key, at] : other.sections) sections[key] = at;
  refused.merge(other.refused);
}

}  // namespace troupe::config
