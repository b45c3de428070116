// Duplicates a file descriptor for a second owner.
#pragma once

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/error.hpp"

namespace troupe::actors {

/// Returns a duplicate of `descriptor` that is closed on exec; the caller owns it. Errors: limit.
inline core::result<int> duplicate(int descriptor) {
  const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (copy < 0)
    return core::fail(
        core::error_kind::limit,
        std::string("processes: cannot duplicate a descriptor of shared memory: ") + std::strerror(errno));
  return copy;
}

}  // namespace troupe::actors
