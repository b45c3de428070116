// The part of a step that saves: snapshots of the states as the step before left them, written while the step runs.
#pragma once

#include "plan/draft.hpp"

namespace troupe::plan {

/// A snapshot and a write for each block of `p.snapshots`. A slot is used again once its write was handed over. Comes
/// before every instruction that changes states.
void write_saves(draft& d, const rank_plan& p);

}  // namespace troupe::plan
