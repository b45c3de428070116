// What a session tells of the terms of a job of several processes (docs/cluster.md). Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "job/degree_changes.hpp"

namespace troupe::actors {

/// What has crossed the network: bytes that entered each machine since the first training step of a term had ended, and
/// the steps since then. What is kept in memory for a loss is part of it.
struct network_count {
  std::map<uint32_t, uint64_t> entered_bytes;  ///< by machine; empty where the term has one
  uint64_t steps = 0;
  std::map<uint32_t, uint64_t> before_bytes;  ///< what had entered each when it began to count
};

/// What the terms of a job of several processes were, and what the losses between them have cost.
struct recovery_counts {
  uint64_t terms = 0;                       ///< after the first
  std::vector<job::degree_change> degrees;  ///< data ranks, from which step on
  uint64_t steps_again = 0;                 ///< steps that were done, and were done once more
  double lost_s = 0;                        ///< from when a loss was noticed until the run was where it had been
  std::string cause;                        ///< of the last term, as the supervisor says it
  network_count network;                    ///< of the term that runs
};

/// A term that has begun after the first.
struct term_report {
  uint64_t number = 0;
  uint32_t data = 0;         ///< data ranks
  uint64_t step = 0;         ///< steps done that it began with
  uint64_t steps_again = 0;  ///< that were done once more
  double lost_s = 0;         ///< since what was interrupted had begun
  std::string cause;
};

/// What a rank is in.
struct rank_diagnosis {
  uint32_t rank = 0;
  std::string doing;  ///< "working", "asking" (a disk or the loader), "waiting" (for lanes or ranks), "between runs"
  /// What each lane is in or waits for, and whose partners are missing; between runs what the rank's process waits for
  /// or owes, else empty.
  std::string lanes;
};

}  // namespace troupe::actors
