// Determines the number of cases that a test draws: few by default; `make soak` sets more in the environment.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace troupe::tests {

inline uint64_t wanted_cases(const char* variable, uint64_t by_default) {
  const char* given = std::getenv(variable);
  return given != nullptr ? std::strtoull(given, nullptr, 10) : by_default;
}

}  // namespace troupe::tests
