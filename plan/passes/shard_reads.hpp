// Owns the windows for reads of a rank's own slices from the swap file, and how far ahead the reads run. Reads are in
// the order of the gathers that need them.
#pragma once

#include <string>

#include "plan/draft.hpp"

namespace troupe::plan {

/// The pass that reads slices from the swap file: up to `tier_options::parameter_slots` windows are filled ahead of the
/// gathers; each gather waits for the read of its own window and frees it. Does nothing unless parameters are in files.
std::string read_shards(draft& d, const rank_plan& p);

}  // namespace troupe::plan
