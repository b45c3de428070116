#include "apps/base/load_keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "config/document/scalars.hpp"
#include "config/keys/values.hpp"

namespace troupe::apps {
namespace {

using load_section = config::checkpoint_load_section;

constexpr std::string_view load_section_prefix = "checkpoint.load.", override_prefix = "--set ";

/// Returns the value of the key `name` of checkpoint.load in a configuration, constant or not; null if it has none.
auto* load_value(auto& c, std::string_view name) {
  const auto at = std::ranges::find_if(c.values, [name](const config::effective_value& v) {
    return v.key.starts_with(load_section_prefix) && std::string_view(v.key).substr(load_section_prefix.size()) == name;
  });
  return at == c.values.end() ? nullptr : &*at;
}

}  // namespace

std::vector<std::string> load_keys_by_hand(const config::loaded& c) {
  std::vector<std::string> out;
  for (const auto& v : c.values)
    if (v.key.starts_with(load_section_prefix) && v.origin.starts_with(override_prefix))
      out.push_back(v.key.substr(load_section_prefix.size()));
  return out;
}

std::string origin_of_tag(const config::loaded& c) {
  const auto* const tag = load_value(c, "tag");
  return tag == nullptr ? std::string() : tag->origin;
}

std::string resume_override(const std::string& path) {
  return fmt::format("checkpoint.load.path={}", config::quoted(std::filesystem::absolute(path).string()));
}

config::load_result with_resume(config::loaded c, const std::string& path) {
  auto& load = c.config.checkpoint.load;
  const load_section none;
  auto* const own = load_value(c, "path");
  // The origin of a value contains only the first part of a long override, so a prefix of the override is compared.
  if (const auto ours = std::string(override_prefix) + resume_override(path);
      own != nullptr && !ours.starts_with(own->origin))
    return tl::unexpected(std::vector<config::diagnostic>{
        {config::diagnostic::error, own->origin, 0, 0, "checkpoint.load.path",
         fmt::format("--resume '{}' names another checkpoint to load: leave out one of the two", path)}});
  if (own != nullptr) own->origin = "--resume";
  std::vector<std::string> idle;
  const auto reset = [&](const char* name, auto load_section::*field) {
    auto* const v = load_value(c, name);
    if (v == nullptr || load.*field == none.*field || v->origin.starts_with(override_prefix)) return;
    load.*field = none.*field;
    v->value = config::field_text(*v->row, c.config);
    v->origin = "default";
    idle.emplace_back(name);
  };
  reset("tag", &load_section::tag);
  reset("module_only", &load_section::module_only);
  for (const auto& k : load_keys)
    if (!k.is_for_all) reset(k.name, k.field);
  if (!idle.empty())
    c.warnings.push_back(
        {config::diagnostic::warning, c.config.file.string(), 0, 0, "checkpoint.load",
         fmt::format("with --resume the keys that the file sets for its own path have no effect ({}): a flag or --set "
                     "sets them for the checkpoint of --resume",
                     fmt::join(idle, ", "))});
  return c;
}

}  // namespace troupe::apps
