// How a command that failed ends: one sentence on stderr, and an exit code that says of which kind the error was.
#pragma once

#include <csignal>
#include <cstdio>

#include "core/error.hpp"

namespace troupe::apps {

/// The signal that first asked the program to end; 0: none. Set by the owner of its signals (interrupts, stop_request).
inline volatile std::sig_atomic_t asked_by_signal = 0;

/// The code that shells give: 130 for SIGINT, 143 for SIGTERM, which a batch system sends.
inline int stopped_code() { return 128 + (asked_by_signal != 0 ? asked_by_signal : SIGINT); }

/// The code of a run that could not keep what it should have kept, whether it did its steps or another error ended it.
inline constexpr int unkept_code = 3;

/// 2 for bad input, stopped_code() where somebody stopped it, 1 otherwise.
inline int exit_code_of(const core::error& e) {
  return e.kind == core::error_kind::bad_input ? 2 : e.kind == core::error_kind::stopped ? stopped_code() : 1;
}

/// Says `e` and gives the exit code.
inline int failed(const core::error& e) {
  std::fprintf(stderr, "troupe: error: %s\n", e.text.c_str());
  return exit_code_of(e);
}

}  // namespace troupe::apps
