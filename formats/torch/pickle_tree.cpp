// Implements the functions of pickle_tree that return a value's contents.
#include <fmt/format.h>

#include <bit>

#include "formats/safetensors/header.hpp"
#include "formats/torch/pickle_reader.hpp"

namespace troupe::formats {

namespace {
uint64_t joined(uint32_t low, uint32_t high) { return low | static_cast<uint64_t>(high) << 32; }
std::string_view python3(std::string_view module) { return module == "__builtin__" ? "builtins" : module; }
}  // namespace

int64_t pickle_tree::integer(pickle_ref v) const { return static_cast<int64_t>(joined(nodes_[v].a, nodes_[v].b)); }

double pickle_tree::real(pickle_ref v) const { return std::bit_cast<double>(joined(nodes_[v].a, nodes_[v].b)); }

std::string_view pickle_tree::text(pickle_ref v) const {
  const auto& n = nodes_[v];
  if (n.owned) return std::string_view(own_text_).substr(n.a, n.b);
  return {reinterpret_cast<const char*>(pickle_.data()) + n.a, n.b};
}

std::span<const pickle_ref> pickle_tree::items(pickle_ref v) const {
  if (nodes_[v].list == nothing) return {};
  return lists_[nodes_[v].list];
}

std::optional<pickle_ref> pickle_tree::state(pickle_ref v) const {
  return nodes_[v].state == nothing ? std::nullopt : std::optional(nodes_[v].state);
}

bool pickle_tree::is_global(pickle_ref v, std::string_view module, std::string_view name) const {
  return kind(v) == pickle_kind::global && text(items(v)[1]) == name && python3(text(items(v)[0])) == module;
}

bool pickle_tree::is_call(pickle_ref v, std::string_view module, std::string_view name) const {
  return kind(v) == pickle_kind::object && is_global(target(v), module, name);
}

std::string pickle_tree::global_name(pickle_ref global) const {
  return fmt::format("{}.{}", shown(python3(text(items(global)[0]))), shown(text(items(global)[1])));
}

std::optional<pickle_ref> pickle_tree::find(pickle_ref dict, std::string_view key) const {
  if (kind(dict) != pickle_kind::dict) return std::nullopt;
  const auto all = items(dict);
  for (size_t i = all.size(); i > 0; i -= 2)
    if (kind(all[i - 2]) == pickle_kind::text && text(all[i - 2]) == key) return all[i - 1];
  return std::nullopt;
}

std::optional<pickle_ref> pickle_tree::find(pickle_ref dict, int64_t key) const {
  if (kind(dict) != pickle_kind::dict) return std::nullopt;
  const auto all = items(dict);
  for (size_t i = all.size(); i > 0; i -= 2)
    if (kind(all[i - 2]) == pickle_kind::integer && integer(all[i - 2]) == key) return all[i - 1];
  return std::nullopt;
}

}  // namespace troupe::formats
