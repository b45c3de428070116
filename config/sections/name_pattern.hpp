// Names that a pattern of a configuration is found in. Owns the search, on RE2, whose time is linear in the name.
#pragma once

#include <string>
#include <vector>

#include "core/error.hpp"

namespace troupe::config {

/// [name] Whether the pattern holds from the name's first character on, as Python's `re.match` asks. Refused
/// (bad_input): a pattern that is none.
core::result<std::vector<bool>> matched_at_start(const std::string& pattern, const std::vector<std::string>& names);

/// [name] Whether the pattern is found in it, as Python's `re.search` asks. Refused (bad_input): a pattern that is
/// none.
core::result<std::vector<bool>> searched_in(const std::string& pattern, const std::vector<std::string>& names);

/// [name] Whether the pattern is found in it, in any letter case. Refused (bad_input): a pattern that is none.
core::result<std::vector<bool>> found_in(const std::string& pattern, const std::vector<std::string>& names);

}  // namespace troupe::config
