// How a program takes the signals of core/signal_table.hpp. Owns the dispositions and the mask; what follows from a
// signal is its reader's: interrupts, stop_request, a supervisor, an agent.
#pragma once

#include <csignal>

#include "core/signal_table.hpp"

namespace troupe::apps {

/// Who started this program wants it to outlive the signal, as `nohup` does with SIGHUP. SIGINT and SIGTERM are taken
/// all the same: shells ignore SIGINT for what a script starts in the background, though people send it there.
bool is_left_ignored(int number);

/// Ignores the signals that the table ignores, where nobody has taken them already, such as a profiler.
void ignore_unused_signals();

/// Signals with one of these effects, without those that were ignored when the program began.
sigset_t signals_that_end();
sigset_t signals_that_end_or_save();

/// Blocks the signals that ask for a save until somebody reads them: one that comes while a program starts waits.
void hold_save_signals();

}  // namespace troupe::apps
