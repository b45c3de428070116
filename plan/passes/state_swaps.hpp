// Owns the windows of sub-groups whose states are in memory only around their updates, and otherwise in the swap file,
// and how far ahead the reads run.
#pragma once

#include <string>

#include "plan/draft.hpp"

namespace troupe::plan {

/// The pass that swaps states. Updates of sub-groups whose states are always in memory come first, then the updates of
/// the other sub-groups in the order of their windows; each of these waits for its reads and is followed by its writes.
/// Does nothing unless states are stored in files.
std::string swap_states(draft& d, const rank_plan& p);

}  // namespace troupe::plan
