// Bytes and time of one direction of a link between processes of two machines, as the receiving process counts them.
#pragma once

#include <cstdint>

namespace troupe::actors {

/// Counters of one direction of the link between two processes, since the term (time with the same processes) began.
struct link_traffic {
  uint32_t from = 0, to = 0;  ///< numbers, in the job, of the sending and the receiving process
  uint64_t bytes = 0;
  int64_t receiving_ns = 0;  ///< nanoseconds during which at least one transfer was arriving at `to`
};

}  // namespace troupe::actors
