// Report of a link between hosts that has become slow (docs/cluster.md), which a session passes to its host. Plain
// values.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::actors {

/// One direction of a link, and its figures over the last steps.
struct slow_link_report {
  uint64_t step = 0;     ///< number of steps done
  std::string from, to;  ///< "host b (ranks 1 to 2)"
  double bytes_per_s = 0;
  double usual_bytes_per_s = 0;  ///< rate of the job's faster links
  double share = 0;              ///< share of the steps' time that the link costs, compared with the usual rate
};

}  // namespace troupe::actors
