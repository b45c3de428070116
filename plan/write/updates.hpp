// The part of a step that follows the vote: what optimizers need of whole parameters, updates, publishing.
#pragma once

#include "plan/passes/swaps.hpp"
#include "plan/write/plan_writer.hpp"

namespace troupe::plan {

/// Bytes that the update of a sub-group reads and writes.
uint64_t updated_bytes(const step_plan& p, const sub_group& group);
/// Buckets that stay live until `x`, which reads the gradients of sub-group `g`.
void read_gradients(step_plan& p, const instruction& x, uint32_t g);

/// Writes it; `vote` has been written. `swaps` where states do not all stay in memory. Buckets that stay are open and
/// end with their last reader here.
void write_updates(plan_writer& writer, uint32_t vote, state_swaps* swaps = nullptr);

}  // namespace troupe::plan
