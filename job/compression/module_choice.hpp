// Chooses the modules of a compression technique from the patterns of its groups. Owns the refusals that all techniques
// have in common; each technique decides to which layers it applies and what it changes.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"

namespace troupe::job {

/// Returns "FILE:LINE: KEY: TEXT" as a bad_input error.
tl::unexpected<core::error> refused(const std::string& where, const std::string& key, const std::string& text);

/// Returns, ascending, the indices of the table's layers whose module name contains a match of the pattern; "*" matches
/// all.
core::result<std::vector<size_t>> layers_found(const std::string& pattern, const core::model_table& table);

/// Configuration key of a compression technique, and file and line at which the configuration enables it, for errors.
struct technique {
  std::string key;
  const std::string& where;
};

/// Calls take(group, layer) for each layer that a group's patterns match among the layers that `fits` accepts.
template <class Group, class Fits, class Take>
core::result<void> choose(const technique& t, const std::vector<Group>& groups, const core::model_table& table,
                          Fits fits, Take take) {
  std::map<size_t, std::string> group_of;  // [layer]: name of the group one of whose patterns has matched the layer
  for (const Group& g : groups) {
    const std::string key = t.key + ".different_groups." + g.name + ".modules";
    size_t modules = 0;
    for (const std::string& pattern : g.modules) {
      const auto layers = layers_found(pattern, table);
      if (!layers) return refused(g.where, key, layers.error().text);
      for (const size_t i : *layers) {
        const auto& l = table.layers[i];
        if (!fits(l)) continue;
        const auto [before, is_new] = group_of.emplace(i, g.name);
        if (!is_new && before->second == g.name) continue;  // another pattern of this group has matched the layer
        if (!is_new)
          return refused(g.where, key,
                         "wanted each module in one group, got " + l.name + " in " + before->second + " and " + g.name);
        if (const core::result<void> ok = take(g, static_cast<uint32_t>(i)); !ok)
          return refused(g.where, key, l.name + ": " + ok.error().text);
        ++modules;
      }
    }
    if (modules == 0)
      return refused(g.where, key,
                     fmt::format("wanted patterns that match the name of a module, got 0 matches in {} layers",
                                 table.layers.size()));
  }
  return {};
}

}  // namespace troupe::job
