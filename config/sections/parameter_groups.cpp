#include "config/sections/parameter_groups.hpp"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>

namespace troupe::config {

core::result<std::vector<size_t>> groups_of(const std::vector<parameter_group>& groups,
                                            const std::vector<std::string>& names) {
  std::vector<size_t> out(names.size(), groups.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    const std::string where = fmt::format("parameter_groups[{}].match: ", g);
    const RE2 pattern(groups[g].match, RE2::Quiet);
    if (!pattern.ok())
      return core::fail(core::error_kind::bad_input,
                        where + "wanted an RE2 pattern, got '" + groups[g].match + "': " + pattern.error());
    bool found = false;
    for (size_t q = 0; q < names.size(); ++q) {
      if (!RE2::PartialMatch(names[q], pattern)) continue;
      found = true;
      if (out[q] == groups.size()) out[q] = g;
    }
    if (!found)
      return core::fail(
          core::error_kind::bad_input,
          fmt::format(
              "{}wanted a pattern that matches the name of a parameter, got '{}', which matches none of the {}{}",
              where, groups[g].match, names.size(), names.empty() ? "" : ", of which the first is " + names[0]));
  }
  return out;
}

std::vector<shadowed_group> shadowed_groups(const std::vector<parameter_group>& groups,
                                            const std::vector<std::string>& names) {
  std::vector<shadowed_group> out;
  const auto group_of = groups_of(groups, names);
  if (!group_of) return out;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (std::ranges::find(*group_of, g) != group_of->end()) continue;
    const RE2 pattern(groups[g].match, RE2::Quiet);
    shadowed_group found{.group = g};
    for (size_t q = 0; q < names.size(); ++q)
      if (RE2::PartialMatch(names[q], pattern) && found.names++ == 0) found.by = (*group_of)[q], found.first = names[q];
    if (found.names > 0) out.push_back(std::move(found));
  }
  return out;
}

}  // namespace troupe::config
