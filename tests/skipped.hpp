// Reports a check that this machine cannot run. `make test` ends with a list of these checks (tests/skipped.py).
#pragma once

#include <cstdio>
#include <string>

namespace troupe::tests {

/// Prints that the check `what` is skipped because of `why`. `package` is the Debian package that contains the missing
/// software; empty if no package contains it.
inline void say_skipped(const std::string& what, const std::string& why, const std::string& package = {}) {
  std::printf("\nskipped: %s: %s%s%s\n", what.c_str(), why.c_str(),
              package.empty() ? "" : "; package: ", package.c_str());
  std::fflush(stdout);
}

}  // namespace troupe::tests
