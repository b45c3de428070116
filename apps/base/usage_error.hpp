// Ends a command whose options cannot be parsed, or that only shows its help.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <sstream>

#include "core/text.hpp"

namespace troupe::apps {

/// Prints the help, or the error with unprintable characters of the arguments as escapes. Returns the exit code: 0 for
/// help, 2 for a usage error.
inline int usage_exit(const CLI::App& app, const CLI::ParseError& e) {
  std::ostringstream refused;
  const int code = app.exit(e, std::cout, refused);
  std::fputs(core::printable_lines(refused.str()).c_str(), stderr);
  return code == 0 ? 0 : 2;
}

}  // namespace troupe::apps
