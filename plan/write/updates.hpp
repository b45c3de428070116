// The part of a step that follows the vote: what optimizers need of whole parameters, updates, publishing.
#pragma once

#include "plan/draft.hpp"

namespace troupe::plan {

/// Writes it; the vote has been written. Buckets that stay end with their last reader here.
void write_updates(draft& d, const rank_plan& p);

}  // namespace troupe::plan
