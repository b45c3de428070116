// Writes a schedule as a draft: the plain form of a step, right but in no hurry. Every use of a unit has its own gather
// before it and its own release behind it, and every update follows the vote. Offsets are place/'s; whatever happens
// sooner, later, elsewhere or not at all is passes/'.
#pragma once

#include "plan/draft.hpp"

namespace troupe::plan {

/// The draft of `p`, whose sets are made; `uses` is what its rank computes, none for plans that only save.
draft write(const rank_plan& p, const schedule& uses);

}  // namespace troupe::plan
