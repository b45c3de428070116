#include "config/waiting.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "config/explain.hpp"

namespace troupe::config {
namespace {

/// Returns the values of a key that depend on a missing capability; empty if there are none.
std::string values_that_wait(const key_info& row) {
  if (row.support.capability.empty()) return {};
  if (row.support.acts == effect::when_there) return "all";
  if (!row.support.only.empty()) return fmt::format("all but {}", fmt::join(row.support.only, " and "));
  return fmt::format("{}", fmt::join(row.choices.later, ", "));
}

}  // namespace

std::vector<waiting_for> all_waiting() {
  std::vector<waiting_for> out;
  for (const key_info& row : key_table()) {
    std::string values = values_that_wait(row);
    if (values.empty()) continue;
    auto at = std::ranges::find(out, row.support.capability, &waiting_for::capability);
    if (at == out.end()) at = out.insert(at, {row.support.capability, {}});
    at->keys.push_back({&row, std::move(values)});
  }
  return out;
}

std::string waiting_markdown() {
  std::string out = "| waits for | keys |\n|---|---|\n";
  for (const auto& [capability, keys] : all_waiting()) {
    std::vector<std::string> names;
    const auto add = [&](std::string name) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    };
    for (const auto& [row, values] : keys)
      if (values != "all")
        add(fmt::format("`{}` ({})", row->key, values));
      else if (row->section().empty() || row->type == value_type::section)
        add(fmt::format("`{}`", row->key));
      else  // lists no values of a section, because a section has too many options
        add(fmt::format("options of `{}`", row->section().substr(0, row->section().find(".different_groups"))));
    out += fmt::format("| {} | {} |\n", capability, fmt::join(names, ", "));
  }
  return out;
}

}  // namespace troupe::config
