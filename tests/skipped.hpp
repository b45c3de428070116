// Reports a check that this machine cannot run. `make test` ends with the list of them (tests/skipped.py).
#pragma once

#include <cstdio>
#include <string>

namespace troupe::tests {

/// Prints that `what` is skipped because of `why`. `package` is the Debian package that contains what is missing;
/// empty: no package does.
inline void say_skipped(const std::string& what, const std::string& why, const std::string& package = {}) {
  std::printf("\nskipped: %s: %s%s%s\n", what.c_str(), why.c_str(),
              package.empty() ? "" : "; package: ", package.c_str());
  std::fflush(stdout);
}

}  // namespace troupe::tests
