// How a command that failed ends: one sentence on stderr, and an exit code that says of which kind the error was.
#pragma once

#include <cstdio>

#include "core/error.hpp"

namespace troupe::apps {

/// Says `e`. The exit code: 2 for bad input, 130 where somebody stopped it, 1 otherwise.
inline int failed(const core::error& e) {
  std::fprintf(stderr, "troupe: error: %s\n", e.text.c_str());
  return e.kind == core::error_kind::bad_input ? 2 : e.kind == core::error_kind::stopped ? 130 : 1;
}

}  // namespace troupe::apps
