// How much memory this machine has. Leaves what of it is free, and limits of groups and users, to whoever asks more.
#pragma once

#include <unistd.h>

#include <cstdint>

namespace troupe::core {

/// 0: unknown.
inline uint64_t machine_memory_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
}

}  // namespace troupe::core
