// Owns the choice of the copy that each gather reads. A unit's first gather of a step reads all shards; neighbouring
// ranks keep the gathered parameters as a second copy, and later gathers read that copy.
#pragma once

#include <string>

#include "plan/draft.hpp"

namespace troupe::plan {

/// The pass that gathers from the second copy of parameters (hpZ), in a step that trains: after the first release of a
/// unit, which stores this rank's part of the copy, the unit's gathers read the copy. Does nothing if there is no copy.
/// Source: ZeRO++'s hpZ, whose copy lasts until the update as well.
std::string gather_near(draft& d, const rank_plan& p);

}  // namespace troupe::plan
