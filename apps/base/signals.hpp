// Owns the dispositions and the mask of the signals of signal_table.hpp. Leaves the reactions to the code that
// waits for the signals: interrupts, stop_request, a supervisor, an agent.
#pragma once

#include <csignal>
#include <cstdint>

#include "core/system/signal_table.hpp"

namespace troupe::apps {

/// Longest time in nanoseconds between two signals that count as one request to end: `timeout` signals the program and
/// then its process group, and a launcher signals every process of a job while its supervisor passes the signal on.
inline constexpr int64_t same_request_ns_max = 1'000'000'000;

/// True if the process that started this program ignored the signal, as `nohup` ignores SIGHUP, so that the program
/// survives it. Always false for SIGINT and SIGTERM: shells ignore SIGINT for a script's background commands, but users
/// still send it.
bool is_left_ignored(int number);

/// Ignores the signals that core::signal_table marks as ignored, unless they have a handler already, such as a
/// profiler's.
void ignore_unused_signals();

/// Returns the signals that end the program, without those that were ignored when it began.
sigset_t signals_that_end();
sigset_t signals_that_end_or_save();

/// Blocks the signals that request a save until a thread waits for them, so that a signal sent during the start is not
/// lost.
void hold_save_signals();

}  // namespace troupe::apps
