// Matches names with the patterns of a configuration. Owns the search, by RE2, whose time is linear in the name.
#pragma once

#include <string>
#include <vector>

#include "core/error.hpp"

namespace troupe::config {

/// Returns for each name whether the pattern matches from its first character on, like Python's `re.match`. Refused
/// (bad_input): an invalid pattern.
core::result<std::vector<bool>> matched_at_start(const std::string& pattern, const std::vector<std::string>& names);

/// Returns for each name whether the pattern matches anywhere in it, like Python's `re.search`. Refused (bad_input): an
/// invalid pattern.
core::result<std::vector<bool>> searched_in(const std::string& pattern, const std::vector<std::string>& names);

/// Returns for each name whether the pattern matches anywhere in it, in any letter case. Refused (bad_input): an
/// invalid pattern.
core::result<std::vector<bool>> found_in(const std::string& pattern, const std::vector<std::string>& names);

}  // namespace troupe::config
