// Updates that do not wait for the vote: a sub-group is updated while backward continues, once its gradients are
// reduced and its parameters have no readers left; a skipped step undoes it, and one that clips also does it again.
// Owns the time of these updates; the choice of sub-groups and the places of undo copies are
// layout/update_memory.hpp's. See docs/numerics.md, "Speculation".
#pragma once

#include <string>

#include "plan/draft.hpp"

namespace troupe::plan {

/// The pass: moves the updates of sub-groups that speculate before the vote, to where they become possible.
std::string speculate(draft& d, const rank_plan& p);

/// The pass behind it: adds instructions behind the vote that undo those updates if the step is skipped, and others, if
/// its gradients may be clipped, that then undo them and do them again.
std::string add_undo(draft& d, const rank_plan& p);

}  // namespace troupe::plan
