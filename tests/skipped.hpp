// A check that this machine cannot make. `make test` ends with the list of them (tests/skipped.py).
#pragma once

#include <cstdio>
#include <string>

namespace troupe::tests {

/// `package`: the Debian package that brings what is missing; empty where none does.
inline void say_skipped(const std::string& what, const std::string& why, const std::string& package = {}) {
  std::printf("\nskipped: %s: %s%s%s\n", what.c_str(), why.c_str(),
              package.empty() ? "" : "; package: ", package.c_str());
  std::fflush(stdout);
}

}  // namespace troupe::tests
