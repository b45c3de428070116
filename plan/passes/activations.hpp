// Owns the windows, in a pool of host memory, for the inputs of recomputed units that leave device memory between
// forward and backward, and how far ahead these inputs are read. Leaves extents to layout/activation_extents.hpp, and
// copying to the compute lane.
#pragma once

#include <string>

#include "plan/draft.hpp"

namespace troupe::plan {

/// The pass that adds swaps for the inputs of recomputed units. With tier::cpu every input has a window of its own
/// until backward. With tier::nvme there are `activation_slots` windows: inputs are written from them to the swap file,
/// except the inputs of the last units, which backward needs first. When backward frees a window, the next input is
/// read into it.
std::string move_activations(draft& d, const rank_plan& p);

}  // namespace troupe::plan
