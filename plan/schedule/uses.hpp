// The order in which a rank uses its units: of a pipeline's table, or without one all forward, all backward,
// micro-batch by micro-batch. The operations around the uses are write/'s.
#pragma once

#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// A stage's units forward in order, backward and its parts in reverse; the two of an overlap take turns, segment by
/// segment. Where exchanges overlap, a segment whose gradient is exchanged goes backward in two parts. Forward only
/// unless the plan trains; empty if it only saves.
schedule uses_of(const rank_plan& p);

}  // namespace troupe::plan
