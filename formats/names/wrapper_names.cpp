#include "formats/names/wrapper_names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "formats/names/layer_names.hpp"

namespace troupe::formats {
namespace {

/// Names of the attributes in which wrappers of modules store the wrapped module.
constexpr std::array<std::string_view, 6> wrapper_parts{
    "_orig_mod", "_fsdp_wrapped_module", "_fpw_module", "_checkpoint_wrapped_module", "_forward_module", "module"};

const std::string_view* wrapper_in(std::string_view part) {
  const auto* at = std::ranges::find(wrapper_parts, part);
  return at == wrapper_parts.end() ? nullptr : at;
}

/// Returns the name without the parts in wrapper_parts, and adds the removed parts to `seen` unless that is null.
std::string stripped(std::string_view name, std::set<std::string_view>* seen) {
  std::string out;
  while (true) {
    const auto dot = name.find('.');
    if (dot == name.npos) return out.append(name);
    const auto* part = wrapper_in(name.substr(0, dot));
    if (part != nullptr && seen != nullptr) seen->insert(*part);
    if (part == nullptr) out.append(name.substr(0, dot + 1));
    name.remove_prefix(dot + 1);
  }
}

/// True if no two names of tensors or tied names of the source become equal without the parts that wrappers add.
bool stays_apart(const tensor_source& s) {
  std::set<std::string, std::less<>> before, after;
  const auto add = [&](const std::string& name) {
    return !before.insert(name).second || after.insert(without_wrappers(name)).second;
  };
  return std::ranges::all_of(s.tensors, [&](const auto& t) { return add(t.name); }) &&
         std::ranges::all_of(s.tied, [&](const auto& t) { return add(t.name); });
}

}  // namespace

std::string without_wrappers(std::string_view name) { return stripped(name, nullptr); }

core::result<tensor_source> unwrapped(tensor_source s) {
  std::set<std::string_view> seen;
  for (const auto& t : s.tensors) stripped(t.name, &seen);
  for (const auto& t : s.tied) stripped(t.name, &seen);
  if (seen.empty() || !stays_apart(s)) return s;
  for (auto& t : s.unread) t.name = without_wrappers(t.name);
  auto out = renamed(std::move(s), [](const std::string& name) { return without_wrappers(name); });
  if (out)
    out->remarks.push_back(
        fmt::format("removed from the names: {}, which wrappers of modules add", fmt::join(seen, ", ")));
  return out;
}

}  // namespace troupe::formats
