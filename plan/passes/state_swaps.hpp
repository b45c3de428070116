// Sub-groups whose states are in memory around their updates and in the swap file otherwise. Owns their windows and how
// far ahead reads run.
#pragma once

#include <string>

#include "plan/draft.hpp"

namespace troupe::plan {

/// The pass: updates come in the order of their windows, those that stay in memory first; each waits for its reads and
/// is followed by its writes. Does nothing unless states live in files.
std::string swap_states(draft& d, const rank_plan& p);

}  // namespace troupe::plan
