// Owns the order in which a rank uses its units: the order of a pipeline table, or without a pipeline all forward, then
// all backward, micro-batch by micro-batch. Leaves the operations around the uses to plan/write/.
#pragma once

#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Returns the forwards and backwards of units that a rank computes, in order. Forward visits the units of a stage in
/// the model's order; backward, also if it is split into its input part and its weight part, visits them in reverse
/// order. An action of type overlap (action.hpp) alternates between a segment of its forward and a segment of its
/// backward. With `overlap_exchanges`, the backward of a segment whose input gradient is exchanged is split in two, so
/// that its weight part runs during the exchange. Units before the first trained one have only forwards. A plan that
/// does not train has only forwards; a plan that only saves has no uses.
schedule uses_of(const rank_plan& p);

}  // namespace troupe::plan
