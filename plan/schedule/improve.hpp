// Makes a pipeline table faster by moving actions along its critical path. Owns the moves; search.hpp chooses the
// tables that are improved.
#pragma once

#include <cstdint>

#include "plan/schedule/list_schedule.hpp"

namespace troupe::plan {

/// The effort of one improvement.
struct improve_effort {
  uint64_t actions = 0;  ///< limit of the number of actions whose times are computed, added over all tried tables
  double enough_s = 0;   ///< total time in seconds at which the search stops, since no better one is needed
};

/// Searches from table `t` for faster tables within the effort, and returns the fastest one, never one that is slower
/// than `t`. The result meets the problem's memory limit if `t` does. Requires that find_fault() finds no fault in `t`,
/// and that `t` has no actions but F (forward), I and W (the two parts of a backward). Deterministic.
///
/// The method is late acceptance hill climbing (Burke and Bykov 2017) over moves of an action within its block of the
/// critical path (Balas and Vazacopoulos 1998). Micro-batches of a stage keep their order: they are alike, so another
/// order is no faster.
pipeline_table improve(const pipeline_problem& p, pipeline_table t, const improve_effort& effort);

}  // namespace troupe::plan
