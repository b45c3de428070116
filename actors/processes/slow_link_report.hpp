// Defines the report of a link between machines that has become slow (docs/cluster.md). A session passes the report to
// the program that embeds it. Plain values.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::actors {

/// One direction of a link, and its figures over the last steps.
struct slow_link_report {
  uint64_t step = 0;     ///< number of steps that the run has done at the time of the report
  std::string from, to;  ///< the link's ends, such as "host b (ranks 1 to 2)"
  double bytes_per_s = 0;
  double usual_bytes_per_s = 0;  ///< rate that a quarter of all links reach or exceed, in bytes per second
  /// Share of the steps' time, from 0 to 1, that would be saved if the link reached the usual rate.
  double share = 0;
};

}  // namespace troupe::actors
