// Opens a log file to which a run appends, in such a way that another user who may write to the log's folder cannot
// redirect the output by a link.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "core/system_error.hpp"

namespace troupe::core {

/// Returns a descriptor at the end of `file`, which is created if it is missing. Refuses links, pipes and everything
/// else that is not a regular file.
inline result<int> open_log(const std::filesystem::path& file) {
  const int out = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  struct stat about {};
  const bool is_regular = out >= 0 && ::fstat(out, &about) == 0 && S_ISREG(about.st_mode);
  if (is_regular) return out;
  const int why = errno;
  if (out >= 0) ::close(out);
  if (out >= 0 || why == ELOOP || why == ENXIO)
    return fail(error_kind::bad_input, "cannot append to '" + file.string() + "': wanted a regular file, got a " +
                                           (why == ELOOP && out < 0 ? "link" : "pipe or device") +
                                           "; remove it, or name another output");
  return fail(path_error("append to", file, why));
}

}  // namespace troupe::core
