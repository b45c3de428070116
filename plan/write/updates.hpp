// Owns the part of a step that follows the vote: whole-parameter values that optimizers need, updates, publishing.
#pragma once

#include "plan/draft.hpp"

namespace troupe::plan {

/// Adds the part of the step that follows the vote, which must have been added. If gradients are reduced in place, the
/// lifetimes of buckets end with their last reader in this part.
void write_updates(draft& d, const rank_plan& p);

}  // namespace troupe::plan
