// The effect of each signal on Troupe's programs, as one table. Owns the effects; apps/base/signals.hpp handles the
// signals in a program, and cluster/ forwards them according to this table.
#pragma once

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>

namespace troupe::core {

enum class signal_effect : uint8_t {
  ends,   ///< finishes the current step, saves a checkpoint, then ends the run with exit code 128 + the signal's number
  saves,  ///< saves a checkpoint after the current step
  ignored,  ///< has no effect; without a handler the system would end the program without a save
};

struct signal_meaning {
  int number;
  signal_effect effect;
  /// True if a second signal of this kind ends the run at once. For other kinds a repetition may not be a user's
  /// intent: a CPU limit signals every second, and both a shell and the system signal that a terminal has closed.
  bool hurries = false;
};

/// The signals that Troupe handles. Signals that are missing here keep the system's effect: SIGQUIT ends the process at
/// once, SIGKILL and SIGSTOP cannot be handled, and a fault such as SIGSEGV is no request. Real-time signals are
/// ignored as well.
inline constexpr std::array signal_table = {
    signal_meaning{SIGINT, signal_effect::ends, true}, signal_meaning{SIGTERM, signal_effect::ends, true},
    signal_meaning{SIGHUP, signal_effect::ends},       signal_meaning{SIGXCPU, signal_effect::ends},
    signal_meaning{SIGPWR, signal_effect::ends},       signal_meaning{SIGUSR1, signal_effect::saves},
    signal_meaning{SIGUSR2, signal_effect::saves},     signal_meaning{SIGXFSZ, signal_effect::ignored},
    signal_meaning{SIGPIPE, signal_effect::ignored},   signal_meaning{SIGALRM, signal_effect::ignored},
    signal_meaning{SIGVTALRM, signal_effect::ignored}, signal_meaning{SIGPROF, signal_effect::ignored},
    signal_meaning{SIGIO, signal_effect::ignored},     signal_meaning{SIGSTKFLT, signal_effect::ignored},
};

inline bool has_effect(int number, signal_effect effect) {
  return std::ranges::any_of(signal_table,
                             [&](const signal_meaning& s) { return s.number == number && s.effect == effect; });
}
inline bool ends_run(int number) { return has_effect(number, signal_effect::ends); }
inline bool asks_for_save(int number) { return has_effect(number, signal_effect::saves); }
inline bool hurries(int number) {
  return std::ranges::any_of(signal_table, [&](const signal_meaning& s) { return s.number == number && s.hurries; });
}

}  // namespace troupe::core
