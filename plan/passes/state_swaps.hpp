// Sub-groups of states in memory around their updates, in the swap file otherwise. Owns their windows and how far ahead
// reads run.
#pragma once

#include <string>

#include "plan/draft.hpp"

namespace troupe::plan {

/// The pass: updates come in the order in which their windows do, those that stay in memory first; each waits for what
/// is read and is followed by what is written. Nothing but where states live in files.
std::string swap_states(draft& d, const rank_plan& p);

}  // namespace troupe::plan
