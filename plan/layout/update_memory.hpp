// What updates touch: bytes of a sub-group's update, and the copies of what updates overwrite that come before the
// vote.
#pragma once

#include <cstdint>

#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Bytes that the update of a sub-group reads and writes.
uint64_t updated_bytes(const job_layout& l, const sub_group& group);

/// Bytes of the undo copy of a piece: weights, moments and the 16-bit copy, each rounded up to 64 bytes, as
/// kernels::update_keeping lays them out. 0 where no step is skipped, so that nothing is ever taken back.
uint64_t undo_bytes(const job_layout& l, const owned_piece& piece);

/// What is swapped speculates only where nothing is taken back, for windows onto files are too few to keep copies of;
/// and not where reduced gradients wait in files, since those are read with the sub-group.
bool may_speculate(const job_layout& l);

/// Chooses the sub-groups and places their undo copies; needs options and sub-groups.
void place_undo_copies(rank_plan& p);

}  // namespace troupe::plan
