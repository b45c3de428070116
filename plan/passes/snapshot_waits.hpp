// Owns the waits of instructions that change states: they wait for the snapshots of these states.
#pragma once

#include <string>

#include "plan/draft.hpp"

namespace troupe::plan {

/// The pass for steps that save makes instructions that change states wait for the snapshots of these states. Returns
/// one line for `troupe plan --explain` that says what changed.
std::string wait_for_snapshots(draft& d, const rank_plan& p);

}  // namespace troupe::plan
