// Owns the order in which a rank uses its units: the order of a pipeline table, or without a pipeline all forward, then
// all backward, micro-batch by micro-batch. Leaves the operations around the uses to plan/write/.
#pragma once

#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Returns the uses of a rank in order. The units of a stage are used in order in forward, and in reverse order in
/// backward and its parts. The two actions of an overlap alternate segment by segment. If exchanges overlap with
/// computation, a segment whose gradient is exchanged runs its backward in two parts. Only forward unless the plan
/// trains; empty if the plan only saves.
schedule uses_of(const rank_plan& p);

}  // namespace troupe::plan
