// Counts the cores that this process may use.
#pragma once

#include <sched.h>

#include <cstdint>

namespace troupe::core {

/// Returns the number of cores in the affinity mask of the calling thread; 0 if the system does not report the mask.
inline uint32_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<uint32_t>(CPU_COUNT(&set)) : 0;
}

}  // namespace troupe::core
