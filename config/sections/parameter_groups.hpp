// Assigns parameters to the groups of `parameter_groups`. Owns the matching; the patterns run on RE2, whose time is
// linear in the name.
#pragma once

#include <string>
#include <vector>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"

namespace troupe::config {

/// A group without effect, because earlier groups contain all of its parameters.
struct shadowed_group {
  size_t group = 0;     ///< index of the group without effect
  size_t by = 0;        ///< index of the earlier group to which the parameter `first` belongs
  size_t names = 0;     ///< number of parameter names that the group's pattern matches
  std::string first{};  ///< first parameter name that the group's pattern matches
};
/// Returns the parameter groups that have no effect because earlier groups match all of their parameters, in the order
/// of the groups; empty if groups_of() refuses a pattern.
std::vector<shadowed_group> shadowed_groups(const std::vector<parameter_group>& groups,
                                            const std::vector<std::string>& names);

/// Returns for each name the index of the first group whose pattern matches in it; `groups.size()` if there is none.
/// Refused: an invalid pattern, or one that matches no name at all (a group shadowed by earlier ones is accepted).
core::result<std::vector<size_t>> groups_of(const std::vector<parameter_group>& groups,
                                            const std::vector<std::string>& names);

}  // namespace troupe::config
