// The part of a step that follows the vote: what optimizers need of whole parameters, updates, publishing.
#pragma once

#include "plan/passes/swaps.hpp"
#include "plan/place/plan_writer.hpp"

namespace troupe::plan {

/// Writes it; `vote` has been written. `swaps` where states do not all stay in memory. Buckets that stay are open and
/// end with their last reader here.
void write_updates(plan_writer& writer, uint32_t vote, state_swaps* swaps = nullptr);

}  // namespace troupe::plan
