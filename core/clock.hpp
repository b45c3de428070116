// The one place that reads the real clock. Everything that simulation replaces asks here.
#pragma once

#include <chrono>
#include <cstdint>

namespace troupe::core {

/// Nanoseconds of a steady clock; only differences mean anything.
inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Seconds that have passed since a time of now_ns().
inline double seconds_since(int64_t begin_ns) { return double(now_ns() - begin_ns) / 1e9; }

/// Seconds since 1970, UTC: for people and for files that are read elsewhere, never for durations.
inline double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace troupe::core
