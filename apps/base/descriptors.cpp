#include "apps/base/descriptors.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>

namespace troupe::apps {

void open_missing_descriptors() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(number, F_GETFD) < 0 && errno == EBADF) {
      // open() returns the lowest free number, which is `number`, because all lower descriptors are open.
      const int got = ::open("/dev/null", number == STDIN_FILENO ? O_RDONLY : O_WRONLY);
      if (got >= 0 && got != number) ::close(got);
    }
}

}  // namespace troupe::apps
