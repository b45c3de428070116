#include "apps/base/descriptors.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace troupe::apps {

namespace {

/// A flag that /dev/null ignores and that hardly anyone sets for it. It marks a descriptor that was missing, and stays
/// with the open file in programs that are executed.
constexpr int mark_of_missing = O_DSYNC;

}  // namespace

void open_missing_descriptors() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(number, F_GETFD) < 0 && errno == EBADF) {
      // open() returns the lowest free number, which is `number`, because all lower descriptors are open.
      const int got = ::open("/dev/null", number == STDIN_FILENO ? O_RDONLY : (O_WRONLY | mark_of_missing));
      if (got >= 0 && got != number) ::close(got);
    }
}

bool was_missing(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  struct stat its {
  }, null{};
  return flags >= 0 && (flags & mark_of_missing) == mark_of_missing && ::fstat(descriptor, &its) == 0 &&
         ::stat("/dev/null", &null) == 0 && S_ISCHR(its.st_mode) && its.st_rdev == null.st_rdev;
}

}  // namespace troupe::apps
