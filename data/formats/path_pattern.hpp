// Matches paths against the patterns of a data set's card, in the way in which `datasets` does.
#pragma once

#include <string_view>

namespace troupe::data {

/// True if the whole `path` matches: `*`, `?` and classes such as `[0-7]` and `[!x]` match within a name, `**` across
/// names. The time is at most the product of both lengths.
bool matches_pattern(std::string_view pattern, std::string_view path);

/// True if the text has a character that makes it a pattern.
inline bool is_pattern(std::string_view text) { return text.find_first_of("*?[") != std::string_view::npos; }

}  // namespace troupe::data
