// Reports on the terms of a job of several processes (docs/cluster.md). Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "job/degree_changes.hpp"

namespace troupe::actors {

/// Network traffic of a term: bytes that entered each machine since the first training step of the term had ended, and
/// the steps since then. Includes the traffic of saves in memory.
struct network_count {
  /// [machine]: bytes since counting began; empty if the term has one machine
  std::map<uint32_t, uint64_t> entered_bytes;
  uint64_t steps = 0;
  std::map<uint32_t, uint64_t> before_bytes;  ///< [machine]: bytes that had entered when counting began
};

/// Counts of the terms of a job of several processes, and the cost of the losses between them.
struct recovery_counts {
  uint64_t terms = 0;                       ///< number of terms after the first
  std::vector<job::degree_change> degrees;  ///< number of data ranks of each term, and the step from which it applies
  uint64_t steps_again = 0;                 ///< number of steps that were done more than once
  /// Seconds from the detection of a loss until the run was back at its step, summed over losses.
  double lost_s = 0;
  std::string cause;      ///< cause of the newest term, as the supervisor reports it
  network_count network;  ///< bytes that machines have received in the current term
};

/// Report of a term that has begun, after the first.
struct term_report {
  uint64_t number = 0;
  uint32_t data = 0;         ///< number of data ranks of the term
  uint64_t step = 0;         ///< number of steps done when the term began
  uint64_t steps_again = 0;  ///< number of steps that were done more than once
  double lost_s = 0;         ///< seconds since the begin of the work that the loss interrupted
  std::string cause;
};

/// The current activity of a rank.
struct rank_diagnosis {
  uint32_t rank = 0;
  /// State of the rank: "working", "asking" (a disk or the loader), "waiting" (for lanes or ranks), "between runs".
  std::string doing;
  /// The current instruction of each lane or its reason to wait, with the missing partners; between runs the wait of
  /// the rank's process or the message that others wait for from it, else empty.
  std::string lanes;
};

}  // namespace troupe::actors
