// Which group of `parameter_groups` a parameter falls to. Owns the matching; the patterns run on RE2, whose time is
// linear in the name.
#pragma once

#include <string>
#include <vector>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"

namespace troupe::config {

/// A group all of whose parameters earlier groups have: it changes nothing.
struct shadowed_group {
  size_t group = 0;
  size_t by = 0;        ///< the earlier group that has the first of them
  size_t names = 0;     ///< so many match its pattern
  std::string first{};  ///< the first of them
};
/// In the order of the groups; none where groups_of() refuses a pattern.
std::vector<shadowed_group> shadowed_groups(const std::vector<parameter_group>& groups,
                                            const std::vector<std::string>& names);

/// Per name the index of the first group whose pattern is found in it; `groups.size()` where none is.
/// Refused: a pattern that is none, or that is found in no name at all (a group shadowed by earlier ones is meant).
core::result<std::vector<size_t>> groups_of(const std::vector<parameter_group>& groups,
                                            const std::vector<std::string>& names);

}  // namespace troupe::config
