// Checks, as a program's last action, that everything it printed was written. Owns the sentence and the exit code for a
// standard output that refuses bytes, for example on a full disk.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace troupe::apps {

/// Prints that the output could not be written, and why. Returns `code`, or 1 instead of 0.
inline int code_of_lost_output(int code, const std::string& why) {
  std::fprintf(stderr, "troupe: error: cannot write all of the output%s%s\n", why.empty() ? "" : ": ", why.c_str());
  return code == 0 ? 1 : code;
}

/// Returns `code`, or 1 instead of 0 if standard output has not accepted everything.
inline int with_output_checked(int code) {
  const bool lost = std::ferror(stdout) != 0;  // true if an earlier write to stdout failed; its errno is lost
  errno = 0;
  const bool refused = std::fflush(stdout) != 0;
  if (!lost && !refused) return code;
  return code_of_lost_output(code, errno != 0 ? std::strerror(errno) : "");
}

}  // namespace troupe::apps
