// Owns the writing of a schedule as a draft: the plain form of a step, which is correct but not yet fast. Every use of
// a unit has its own gather before it and its own release after it, and every update follows the vote. passes/ moves,
// removes and adds instructions, and place/ assigns offsets.
#pragma once

#include "plan/draft.hpp"

namespace troupe::plan {

/// Returns the draft of `p`, whose sets are made. `uses` is the computation of its rank, empty for plans that only
/// save.
draft write(const rank_plan& p, const schedule& uses);

}  // namespace troupe::plan
