// The passes that `all.cpp` lists; each has a source of its own, which states its idea.
#pragma once

#include <string>

#include "plan/draft.hpp"

namespace troupe::plan {

/// The speculation pass: moves the updates of the sub-groups that are chosen for it (rank_plan::speculates) from after
/// the vote to the earliest possible position before it.
std::string speculate(draft& d, const rank_plan& p);

/// The pass that runs after `speculate`: adds instructions after the vote that undo the early updates if the step is
/// skipped. If gradients may be clipped, these instructions also act in a clipped step, and further ones update again.
std::string add_undo(draft& d, const rank_plan& p);

/// The pass that gathers from the second copy of parameters (hpZ), in a step that trains: after the first release of a
/// unit, which stores this rank's part of the copy, the unit's gathers read the copy. Does nothing if there is no copy.
/// Source: ZeRO++'s hpZ, whose copy lasts until the update as well.
std::string gather_near(draft& d, const rank_plan& p);

/// The pass that reads slices from the swap file: up to `tier_options::parameter_slots` windows are filled ahead of the
/// gathers; each gather waits for the read of its own window and frees it. Does nothing unless parameters are in files.
std::string read_shards(draft& d, const rank_plan& p);

/// The pass that writes gradients: before a reduction, the sum that it adds to is read from the file; after it the
/// result is written back, through `tier_options::gradient_slots` windows. Does nothing unless reduced gradients are
/// stored in files.
std::string write_gradients(draft& d, const rank_plan& p);

/// The pass that swaps states. Updates of sub-groups whose states are always in memory come first, then the updates of
/// the other sub-groups in the order of their windows; each of these waits for its reads and is followed by its writes.
/// Does nothing unless states are stored in files.
std::string swap_states(draft& d, const rank_plan& p);

/// The pass that adds swaps for the inputs of recomputed units. With tier::cpu every input has a window of its own
/// until backward. With tier::nvme there are `activation_slots` windows: inputs are written from them to the swap file,
/// except the inputs of the last units, which backward needs first. When backward frees a window, the next input is
/// read into it.
std::string move_activations(draft& d, const rank_plan& p);

/// The pass for steps that save: makes instructions that change states wait for the snapshots of these states. Returns
/// a line for `troupe plan --explain` about its changes.
std::string wait_for_snapshots(draft& d, const rank_plan& p);

}  // namespace troupe::plan
