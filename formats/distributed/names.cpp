#include "formats/distributed/names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

namespace troupe::formats {
namespace {

constexpr std::string_view state_key = "state", groups_key = "param_groups", state_mark = "state.",
                           groups_mark = "param_groups.", megatron_mark = "distributed.dp_group_idx_";

bool is_optimizer_key(std::string_view key) { return key == "optim" || key == "optimizer"; }

std::string joined(std::span<const std::string> keys) { return fmt::format("{}", fmt::join(keys, ".")); }

/// Returns an entry's keys except the last one, which is the name of the entry itself.
std::span<const std::string> leading_to(const distributed_entry& e) {
  return std::span(e.keys).first(e.keys.empty() ? 0 : e.keys.size() - 1);
}

bool has_state_key(const distributed_entry& e) {
  return std::ranges::find(leading_to(e), state_key) != leading_to(e).end();
}

}  // namespace

std::string_view behind_state(std::string_view name) {
  for (size_t at = name.find(state_mark); at != name.npos; at = name.find(state_mark, at + 1))
    if (at == 0 || name[at - 1] == '.') return name.substr(at + state_mark.size());
  return {};
}

bool is_optimizers_name(std::string_view name) {
  bool has_prefix = false;
  for (size_t dot = name.find('.'); dot != name.npos && is_optimizer_key(name.substr(0, dot)); dot = name.find('.')) {
    name.remove_prefix(dot + 1);
    has_prefix = true;
  }
  if (!has_prefix) return false;
  if (name.starts_with(state_mark)) return name.find('.', state_mark.size()) != name.npos;
  return name.starts_with(groups_mark) || name.starts_with(megatron_mark);
}

std::string own_name(const std::string& name, const distributed_entry& e) {
  if (e.keys.empty()) return name;
  if (e.keys.size() <= 2) return e.keys.back();
  return joined(std::span(e.keys).subspan(e.keys[1] == "model" ? 2 : 1));
}

optimizers_entries::optimizers_entries(const distributed_entries& all) {
  for (const auto& [name, e] : all) {
    const auto keys = leading_to(e);
    if (const auto at = std::ranges::find(keys, groups_key); at != keys.end())
      grouped_.insert(joined(keys.first(static_cast<size_t>(at - keys.begin()))));
    else if (e.is_tensor() && !has_state_key(e))
      weights_.insert(own_name(name, e));
  }
}

bool optimizers_entries::contains(const std::string& name, const distributed_entry& e) const {
  if (is_optimizers_name(name)) return true;
  const auto keys = leading_to(e);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == groups_key) return true;
    if (keys[i] != state_key) continue;
    if (std::ranges::any_of(keys.first(i), is_optimizer_key) || grouped_.contains(joined(keys.first(i)))) return true;
    if (i + 1 < keys.size() && weights_.contains(keys[i + 1])) return true;
  }
  return false;
}

}  // namespace troupe::formats
