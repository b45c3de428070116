// Reads of a rank's own slices from the swap file, in the order of the gathers that need them. Owns the windows and how
// far ahead reads run.
#pragma once

#include <string>

#include "plan/draft.hpp"

namespace troupe::plan {

/// The pass: `tier_options::parameter_slots` windows are read ahead; each gather waits for its own and gives it back.
/// Does nothing unless parameters live in files.
std::string read_shards(draft& d, const rank_plan& p);

}  // namespace troupe::plan
