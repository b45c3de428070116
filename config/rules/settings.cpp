#include "config/rules/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "config/keys/values.hpp"

namespace troupe::config {

void reporter::add(diagnostic::severity_kind severity, about what, place at, std::string key, std::string text) {
  if (severity == diagnostic::error) ++errors_;
  if (items_.size() < most_diagnostics)
    items_.push_back({severity, what, at, std::move(key), std::move(text)});
  else
    ++left_out_;
}

void reporter::warn(place at, std::string key, std::string text) {
  add(strict ? diagnostic::error : diagnostic::warning, about::key, at, std::move(key), std::move(text));
}

void reporter::remark_value(place at, std::string key, std::string text) {
  add(strict ? diagnostic::error : diagnostic::warning, about::value, at, std::move(key), std::move(text));
}

namespace {

/// True if a key equals `outer`, or is within the section or list `outer`.
bool is_within(std::string_view key, std::string_view outer) {
  return key.starts_with(outer) && (key.size() == outer.size() || key[outer.size()] == '.' || key[outer.size()] == '[');
}

}  // namespace

void reporter::forget_values(std::string_view key, uint32_t except_source) {
  errors_ -= std::erase_if(items_, [&](const item& i) {
    return i.severity == diagnostic::error && i.what == about::value && i.at.source != except_source &&
           is_within(i.key, key);
  });
  std::erase_if(items_, [&](const item& i) {
    return i.severity == diagnostic::warning && i.what == about::value && i.at.source != except_source &&
           is_within(i.key, key);
  });
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

bool settings::is_off(std::string_view section) const {
  const setting* s = value_of(fmt::format("{}.enabled", section));
  return s != nullptr && boolean_in(*s->value) == false;
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

void settings::override_with(settings other, reporter& report) {
  const auto drop = [&](std::string_view outer, uint32_t source) {
    std::erase_if(given, [&](const auto& item) { return is_within(item.first, outer); });
    std::erase_if(refused, [&](const std::string& key) { return is_within(key, outer); });
    report.forget_values(outer, source);
  };
  for (const auto& [list, count] : other.lists) {
    drop(list, other.sections.at(list).source);
    std::erase_if(sections, [&](const auto& item) { return is_within(item.first, list); });
    lists[list] = count;
  }
  for (const std::string& section : other.nulls) {
    drop(section, other.sections.at(section).source);
    std::erase_if(mappings, [&](const std::string& key) { return is_within(key, section); });
  }
  for (auto& [key, s] : other.given) {
    report.forget_values(key, s.at.source);
    refused.erase(key);
    const auto below = given.find(key);
    if (s.in_part && below != given.end() && below->second.value != nullptr)
      below->second.value = overlaid(below->second.value, s.value);
    else
      given[key] = std::move(s);
  }
  for (auto& [key, at] : other.sections) sections[key] = at;
  refused.merge(other.refused);
  mappings.merge(other.mappings);
}

}  // namespace troupe::config
