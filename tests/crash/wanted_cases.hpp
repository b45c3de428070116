// How many cases a test draws: few by default, as many as the environment says in `make soak`.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace troupe::tests {

inline uint64_t wanted_cases(const char* variable, uint64_t by_default) {
  const char* given = std::getenv(variable);
  return given != nullptr ? std::strtoull(given, nullptr, 10) : by_default;
}

}  // namespace troupe::tests
