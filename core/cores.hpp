// How many cores this process may use.
#pragma once

#include <sched.h>

#include <cstdint>

namespace troupe::core {

/// Cores that the calling thread may run on, as its affinity says; 0 where the system does not tell.
inline uint32_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<uint32_t>(CPU_COUNT(&set)) : 0;
}

}  // namespace troupe::core
