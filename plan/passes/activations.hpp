// Owns the windows, in a pool of the host, for inputs of recomputed units that do not stay in device memory between
// forward and backward, and how far ahead they are read. Leaves extents to layout/activation_extents.hpp, and copying
// to the compute lane.
#pragma once

#include <string>

#include "plan/draft.hpp"

namespace troupe::plan {

/// The pass that moves activations. With tier::cpu every input stays in a window of its own. With tier::nvme there are
/// `activation_slots` windows: inputs leave them for the file, except the inputs of the last units, which backward
/// needs first. When backward frees a window, the next input is read into it.
std::string move_activations(draft& d, const rank_plan& p);

}  // namespace troupe::plan
