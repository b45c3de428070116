// Own slices on their way from the swap file to gathers, in the order of these. Owns windows and how far ahead reads
// run.
#pragma once

#include <string>

#include "plan/draft.hpp"

namespace troupe::plan {

/// The pass: `tier_options::parameter_slots` windows are read ahead; each gather waits for its own and gives it back.
/// Nothing but where parameters live in files.
std::string read_shards(draft& d, const rank_plan& p);

}  // namespace troupe::plan
