#include "hardware/catalogue.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/source_file.hpp"
#include "core/text.hpp"
#include "hardware/read_hardware.hpp"
#include "hardware/step_form.hpp"

namespace troupe::hardware {
namespace {

/// Largest bytes of a file that a user names, and largest number of stacks that inherit from one another.
constexpr uint64_t most_bytes = uint64_t{1} << 20;
constexpr int deepest_inheritance = 4;

using found = std::variant<card, stack>;

core::result<found> find_within(const std::string& name_or_path, int depth);

/// Returns a lookup of what a file refers to.
hardware_lookup lookup_at(int depth) {
  return {[depth](const std::string& name) -> core::result<card> {
            TROUPE_ASSIGN(auto one, find_within(name, depth + 1));
            if (auto* const is = std::get_if<card>(&one)) return std::move(*is);
            return core::refused(fmt::format("wanted a card, got the stack {}", core::shown(name)));
          },
          [depth](const std::string& name) -> core::result<stack> {
            TROUPE_ASSIGN(auto one, find_within(name, depth + 1));
            if (auto* const is = std::get_if<stack>(&one)) return std::move(*is);
            return core::refused(fmt::format("wanted a stack, got the card {}", core::shown(name)));
          }};
}

core::result<found> find_within(const std::string& name_or_path, int depth) {
  if (depth > deepest_inheritance)
    return core::refused(fmt::format("{}: stacks inherit from one another more than {} deep", core::shown(name_or_path),
                                     deepest_inheritance));
  if (name_or_path.ends_with(".yaml")) {
    TROUPE_ASSIGN(const auto text, core::read_file(name_or_path, most_bytes));
    return read_hardware(text, std::filesystem::path(name_or_path).stem().string(), name_or_path, lookup_at(depth));
  }
  const auto files = embedded_files();
  const auto at = std::ranges::find(files, std::string_view(name_or_path), &embedded_file::name);
  if (at != files.end())
    return read_hardware(at->text, name_or_path, fmt::format("hardware/{}.yaml", name_or_path), lookup_at(depth));
  std::vector<std::string> names;
  for (const auto& file : files) names.emplace_back(file.name);
  return core::refused(fmt::format("unknown hardware {}, the nearest is {}; known are {}, and paths that end in .yaml",
                                   core::in_quotes(core::shown(name_or_path)), nearest_name(name_or_path, names),
                                   fmt::join(names, ", ")));
}

}  // namespace

core::result<found> find_hardware(const std::string& name_or_path) { return find_within(name_or_path, 0); }

core::result<named_text> find_network(const std::string& name_or_path) {
  if (name_or_path.ends_with(".yaml")) {
    TROUPE_ASSIGN(auto text, core::read_file(name_or_path, most_bytes));
    return named_text{std::move(text), name_or_path};
  }
  std::vector<std::string> names;
  for (const auto& file : embedded_networks()) {
    if (file.name == name_or_path)
      return named_text{std::string(file.text), fmt::format("hardware/{}.yaml", name_or_path)};
    names.emplace_back(file.name);
  }
  return core::refused(fmt::format("unknown network {}, the nearest is {}; known are {}, and paths that end in .yaml",
                                   core::in_quotes(core::shown(name_or_path)), nearest_name(name_or_path, names),
                                   fmt::join(names, ", ")));
}

core::result<std::vector<stack>> embedded_stacks() {
  std::vector<stack> out;
  for (const auto& file : embedded_files()) {
    TROUPE_ASSIGN(auto one, find_within(std::string(file.name), 0));
    if (auto* const is = std::get_if<stack>(&one)) out.push_back(std::move(*is));
  }
  return out;
}

core::result<std::vector<stack>> choose_stacks(const std::vector<std::string>& names, std::string_view table) {
  std::vector<stack> out;
  for (const auto& name : names) {
    TROUPE_ASSIGN(auto one, find_within(name, 0));
    if (auto* const is = std::get_if<stack>(&one)) {
      out.push_back(std::move(*is));
      continue;
    }
    const auto& on = std::get<card>(one);
    TROUPE_ASSIGN(auto all, embedded_stacks());
    std::vector<std::string> of_card, suitable;
    for (const auto& s : all) {
      if (s.card_name != on.name) continue;
      of_card.push_back(s.name);
      if (std::ranges::find(s.tables, table) != s.tables.end()) suitable.push_back(s.name);
    }
    if (suitable.size() != 1)
      return core::refused(fmt::format("the card {} has {} for tables of this form ({}); name a stack: {}", on.name,
                                       suitable.empty() ? "no stack" : "several stacks", table,
                                       fmt::join(suitable.empty() ? of_card : suitable, ", ")));
    out.push_back(std::move(*std::ranges::find(all, suitable.front(), &stack::name)));
  }
  return out;
}

core::result<stack> choose_job_stack(const std::string& name) {
  TROUPE_ASSIGN(auto one, find_within(name, 0));
  if (auto* const is = std::get_if<stack>(&one)) {
    if (is->find(quantity::step) == nullptr)
      return core::refused(fmt::format("the stack {} has no constants of steps", is->name));
    if (step_form_of(*is) == nullptr)
      return core::refused(
          fmt::format("the stack {} does not say how its software computes a step: wanted one of {} in "
                      "tables, got {}",
                      is->name, fmt::join(step_form_names(), ", "), fmt::join(is->tables, ", ")));
    return std::move(*is);
  }
  const auto& on = std::get<card>(one);
  if (name.ends_with(".yaml"))
    return core::refused(
        fmt::format("{}: a card has no constants of software: wanted a stack, whose key card may be this file", name));
  TROUPE_ASSIGN(auto all, embedded_stacks());
  std::erase_if(all, [&](const stack& s) {
    return s.card_name != on.name || s.find(quantity::step) == nullptr || step_form_of(s) == nullptr;
  });
  if (all.empty()) return core::refused(fmt::format("the card {} has no stack with constants of steps", on.name));
  // The forms are elements of one table, in the order in which they are preferred.
  std::ranges::stable_sort(all, {}, [](const stack& s) { return step_form_of(s); });
  if (all.size() > 1 && step_form_of(all[0]) == step_form_of(all[1]))
    return core::refused(fmt::format("the card {} has several stacks of the same form; name one: {}, {}", on.name,
                                     all[0].name, all[1].name));
  return std::move(all.front());
}

}  // namespace troupe::hardware
