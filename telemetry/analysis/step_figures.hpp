// Computes figures of one step from its graph: the shares of the critical path, exposed time of collectives, who waited
// for whom. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "telemetry/analysis/step_graph.hpp"

namespace troupe::telemetry {

/// The part of the critical path that one kind of instruction has.
struct path_share {
  std::string kind;  ///< name of the kind; that of the lane for idle time
  work_sort sort = work_sort::compute;
  bool idle = false;  ///< true: time in which the lane could have started its next instruction and did not
  int64_t ns = 0;
};

/// The time of all collectives of one kind. Means over the ranks that have any.
struct exposed_kind {
  std::string kind;
  uint64_t count = 0;      ///< number of collectives, each counted once
  int64_t moving_ns = 0;   ///< time since the last member had arrived, until the end
  int64_t exposed_ns = 0;  ///< time of it in which the rank neither computed nor updated
};

/// Time in which a rank had posted a collective, neither computed nor updated, and another rank had not arrived.
struct rank_wait {
  uint32_t rank = 0, for_rank = 0;  ///< numbers of ranks; `for_rank` arrived last
  int64_t ns = 0;
};

struct step_figures {
  uint64_t number = 0;
  int64_t length_ns = 0;
  std::vector<path_share> path;       ///< longest first; the parts add up to length_ns
  std::vector<exposed_kind> exposed;  ///< longest exposed time first
  std::vector<rank_wait> waits;       ///< longest first
};

step_figures figures_of(const step_graph& g);

}  // namespace troupe::telemetry
