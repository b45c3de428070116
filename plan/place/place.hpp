// Owns the last phase of plan generation, which makes a plan from a draft: lifetimes become offsets, with edges from
// earlier users of the same bytes; instructions get their numbers, lanes and collectives their order; memory is
// counted.
#pragma once

#include "plan/draft.hpp"

namespace troupe::plan {

/// Fills the instructions, lanes, buffers, pools and memory of `p`. `d` must have been written for the sets of `p`.
void place(draft d, rank_plan& p);

}  // namespace troupe::plan
