// Reads the system's clocks. Actors read their own clock instead (actors/caf.hpp), because a simulation replaces the
// actors' clock by a virtual one.
#pragma once

#include <chrono>
#include <cstdint>

namespace troupe::core {

/// Returns the nanoseconds of a steady clock; only differences are meaningful.
inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Returns the seconds that have passed since `begin_ns`, a value of now_ns().
inline double seconds_since(int64_t begin_ns) { return double(now_ns() - begin_ns) / 1e9; }

/// Returns the seconds since 1970, UTC, for messages and for files that other programs read; never use it for
/// durations.
inline double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace troupe::core
