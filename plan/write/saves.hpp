// Owns the part of a step that saves: snapshots of the states as the previous step left them, written to the disk while
// the step runs.
#pragma once

#include "plan/draft.hpp"

namespace troupe::plan {

/// Adds a snapshot and a write for each block of `p.snapshots`. A staging slot is reused after its write was handed
/// to the disk. Must be called before any instruction that changes states is added.
void write_saves(draft& d, const rank_plan& p);

}  // namespace troupe::plan
