// The last thing that a program does: whether all that it printed has arrived. Owns the sentence and the exit code for
// a standard output that refuses bytes, as on a full disk.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace troupe::apps {

/// `code`, or 1 instead of 0, after a sentence that the output has not been taken, and why.
inline int code_of_lost_output(int code, const std::string& why) {
  std::fprintf(stderr, "troupe: error: cannot write all of the output%s%s\n", why.empty() ? "" : ": ", why.c_str());
  return code == 0 ? 1 : code;
}

/// `code`, or 1 instead of 0 where standard output has not taken everything.
inline int with_output_checked(int code) {
  const bool lost = std::ferror(stdout) != 0;  // of a line before, whose reason nobody has kept
  errno = 0;
  const bool refused = std::fflush(stdout) != 0;
  if (!lost && !refused) return code;
  return code_of_lost_output(code, errno != 0 ? std::strerror(errno) : "");
}

}  // namespace troupe::apps
