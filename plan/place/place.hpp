// The last phase: a draft becomes a plan. Lifetimes become offsets, with edges from earlier users of the same bytes;
// instructions get numbers, lanes and collectives their order; memory is counted.
#pragma once

#include "plan/draft.hpp"

namespace troupe::plan {

/// Fills the instructions, lanes, buffers, pools and memory of `p`, whose sets `d` was written for.
void place(draft d, rank_plan& p);

}  // namespace troupe::plan
