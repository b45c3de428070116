// Updates that do not wait for the vote: a sub-group is updated once its gradients are reduced and nobody reads its
// parameters any more, while backward goes on; a step that is skipped takes it back. Owns when that is; which
// sub-groups those are, and where copies of what they overwrite lie, is layout/update_memory.hpp's. See
// docs/numerics.md, "Speculation".
#pragma once

#include <string>

#include "plan/draft.hpp"

namespace troupe::plan {

/// The pass: moves the updates of sub-groups that speculate before the vote, to where they become possible.
std::string speculate(draft& d, const rank_plan& p);

/// The pass behind it: what takes those updates back if the step is skipped, behind the vote.
std::string add_undo(draft& d, const rank_plan& p);

}  // namespace troupe::plan
