// Makes instructions that change states wait for the snapshots of these states, in steps that save.
#pragma once

#include <string>

#include "plan/draft.hpp"

namespace troupe::plan {

/// The pass for steps that save: makes instructions that change states wait for the snapshots of these states. Returns
/// a line for `troupe plan --explain` about its changes.
std::string wait_for_snapshots(draft& d, const rank_plan& p);

}  // namespace troupe::plan
