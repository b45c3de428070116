// How a command that failed ends: one sentence on stderr, and an exit code that says of which kind the error was.
#pragma once

#include <cstdio>

#include "core/error.hpp"

namespace troupe::apps {

/// 2 for bad input, 130 where somebody stopped it, 1 otherwise.
inline int exit_code_of(const core::error& e) {
  return e.kind == core::error_kind::bad_input ? 2 : e.kind == core::error_kind::stopped ? 130 : 1;
}

/// Says `e` and gives the exit code.
inline int failed(const core::error& e) {
  std::fprintf(stderr, "troupe: error: %s\n", e.text.c_str());
  return exit_code_of(e);
}

}  // namespace troupe::apps
