// Owns the time of updates that do not wait for the vote. A sub-group is updated while backward continues, once its
// gradients are reduced and its parameters have no readers left; a skipped step undoes the update, and a step that
// clips undoes it and updates again. Leaves the choice of sub-groups and the places of undo copies to
// layout/update_memory.hpp. See docs/numerics.md, "Speculation".
#pragma once

#include <string>

#include "plan/draft.hpp"

namespace troupe::plan {

/// The speculation pass: moves the updates of the sub-groups that are chosen for it (rank_plan::speculates) from after
/// the vote to the earliest possible position before it.
std::string speculate(draft& d, const rank_plan& p);

/// The pass that runs after `speculate`: adds instructions after the vote that undo the early updates if the step is
/// skipped. If gradients may be clipped, these instructions also act in a clipped step, and further ones update again.
std::string add_undo(draft& d, const rank_plan& p);

}  // namespace troupe::plan
