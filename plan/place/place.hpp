// The last phase: a draft becomes a plan. Lifetimes become offsets, and edges from whoever used those bytes before;
// instructions get numbers, lanes their order, collectives theirs; memory is counted.
#pragma once

#include "plan/draft.hpp"

namespace troupe::plan {

/// Fills the instructions, lanes, buffers, pools and memory of `p`, whose sets `d` was written for.
void place(draft d, rank_plan& p);

}  // namespace troupe::plan
