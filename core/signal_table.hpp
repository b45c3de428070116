// What each signal means to Troupe's programs, in one table. Owns the meanings; apps/base/signals.hpp takes the signals
// for a program, and cluster/ passes them on by these meanings.
#pragma once

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>

namespace troupe::core {

enum class signal_effect : uint8_t {
  ends,     ///< the step in hand is finished and saved, then the run ends with code 128 + number
  saves,    ///< a checkpoint follows the step in hand
  ignored,  ///< else the system would end the program unsaved
};

struct signal_meaning {
  int number;
  signal_effect effect;
  /// A second one ends the run at once. Others may come again by themselves: a CPU limit tells every second, and both a
  /// shell and the system tell that a terminal has closed.
  bool hurries = false;
};

/// Signals that are missing here keep the system's meaning: SIGQUIT ends at once, SIGKILL and SIGSTOP cannot be taken,
/// and a fault such as SIGSEGV is no request. Real-time signals are ignored as well.
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
