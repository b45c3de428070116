// Inputs of recomputed units between forward and backward, where they do not stay in device memory: windows in a pool
// of the host. Owns the windows and how far ahead reads run; extents are layout/activation_extents.hpp's, copying is
// the compute lane's.
#pragma once

#include <string>

#include "plan/draft.hpp"

namespace troupe::plan {

/// The pass. With tier::cpu every input stays in a window of its own. With tier::nvme there are `activation_slots`
/// windows: inputs leave them for the file, except those of the last units, which backward needs first; when backward
/// frees a window, the next input is read into it.
std::string move_activations(draft& d, const rank_plan& p);

}  // namespace troupe::plan
