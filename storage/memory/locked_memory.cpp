#include "storage/memory/locked_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>

namespace troupe::storage {

std::optional<std::string> lock_memory(std::span<std::byte> memory) {
  if (memory.empty() || ::mlock(memory.data(), memory.size()) == 0) return std::nullopt;
  const int why = errno;
  std::string out = fmt::format("memory: cannot lock {} bytes: {}", memory.size(), std::strerror(why));
  rlimit limit{};
  // Some kernels return EAGAIN if only part of the memory could be locked; EPERM means a limit of zero.
  if ((why == ENOMEM || why == EPERM || why == EAGAIN) && ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
      limit.rlim_cur != RLIM_INFINITY)
    out += fmt::format(
        "; RLIMIT_MEMLOCK is {} bytes, raise it with `ulimit -l` in KiB, a `memlock` line in "
        "/etc/security/limits.conf, or for a container with --ulimit memlock=-1",
        limit.rlim_cur);
  return out + "; using the memory unlocked";
}

}  // namespace troupe::storage
