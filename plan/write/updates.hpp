// The part of a step that follows the vote: whole-parameter values that optimizers need, updates, publishing.
#pragma once

#include "plan/draft.hpp"

namespace troupe::plan {

/// Writes that part; the vote has been written. The lifetimes of buckets that stay end with their last reader here.
void write_updates(draft& d, const rank_plan& p);

}  // namespace troupe::plan
