// Ends a failed command: one sentence on stderr, and an exit code for the kind of error.
#pragma once

#include <csignal>

#include "apps/base/error_line.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// Number of the first signal that requested the program's end; 0: none. Set by interrupts or stop_request, whichever
/// handles the program's signals.
inline volatile std::sig_atomic_t asked_by_signal = 0;

/// Returns the exit code that shells use for the signal that requested the end: 130 for SIGINT, 143 for SIGTERM.
inline int stopped_code() { return 128 + (asked_by_signal != 0 ? asked_by_signal : SIGINT); }

/// Exit code of a run whose last checkpoint or exported model could not be written, whether or not the run failed.
inline constexpr int unkept_code = 3;

/// Returns 2 for bad input, stopped_code() if the program was stopped, else 1.
inline int exit_code_of(const core::error& e) {
  return e.kind == core::error_kind::bad_input ? 2 : e.kind == core::error_kind::stopped ? stopped_code() : 1;
}

/// Prints `e` to stderr and returns its exit code.
inline int failed(const core::error& e) {
  print_error_line("troupe: error: " + e.text);
  return exit_code_of(e);
}

}  // namespace troupe::apps
