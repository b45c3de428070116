// Prints lines to stderr. Every error, warning and note of a command passes through here, so that no byte of a path, a
// file or another program reaches the terminal as a command.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "core/text.hpp"

namespace troupe::apps {

/// Prints `text`, which may have several lines, and a line end, with unprintable characters as escapes.
inline void print_error_line(std::string_view text) {
  std::fputs((core::printable_lines(text) + '\n').c_str(), stderr);
}

}  // namespace troupe::apps
