// What a process knows of one direction of a link to another machine. A plain value.
#pragma once

#include <cstdint>

namespace troupe::actors {

/// Since the term began.
struct link_traffic {
  uint32_t from = 0, to = 0;  ///< places of processes
  uint64_t bytes = 0;
  int64_t receiving_ns = 0;  ///< in which a transfer was coming in at `to`
};

}  // namespace troupe::actors
