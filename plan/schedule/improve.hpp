// Makes a table of a pipeline faster by moving actions along its critical path. Owns the moves; what it starts from is
// search.hpp's.
#pragma once

#include <cstdint>

#include "plan/schedule/list_schedule.hpp"

namespace troupe::plan {

/// How long an improvement tries.
struct improve_effort {
  uint64_t actions = 0;  ///< that it may play, over all tries
  double enough_s = 0;   ///< a total that needs no better
};

/// The fastest table found from `t` within the effort, never a slower one, that keeps to the problem's memory if `t`
/// does. `t` is proved and has F, I and W alone. Deterministic.
///
/// Late acceptance hill climbing (Burke and Bykov 2017) over moves of an action within its block of the critical path
/// (Balas and Vazacopoulos 1998). Micro-batches of a stage keep their order: they are alike, so another is no faster.
pipeline_table improve(const pipeline_problem& p, pipeline_table t, const improve_effort& effort);

}  // namespace troupe::plan
