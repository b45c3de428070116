// Memory of updates: bytes that a sub-group's update touches, and undo copies of updates that run before the vote.
#pragma once

#include <cstdint>

#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Bytes that the update of a sub-group reads and writes.
uint64_t updated_bytes(const job_layout& l, const sub_group& group);

/// Bytes of the undo copy of a piece: weights, moments and the 16-bit copy, each rounded up to 64 bytes, as
/// kernels::update_keeping lays them out. 0 where no step is ever skipped or clipped, so that nothing is undone.
uint64_t undo_bytes(const job_layout& l, const owned_piece& piece);
/// The same of a piece of sub-group `group` of a plan. States in files need none, since the place that they had stays
/// valid: only what the update changes in memory is kept, with slices that stay there beside the file.
uint64_t undo_bytes(const rank_plan& p, uint32_t group, const owned_piece& piece);

/// Whether slices of `parameter` stay in memory beside the file.
bool stays_beside_file(const job_layout& l, uint32_t parameter);

/// Whether sub-groups may be updated before the vote. Swapped ones only where nothing is ever undone, or where they
/// have two places in the file.
bool may_speculate(const job_layout& l);

/// Chooses the sub-groups and places their undo copies; needs options and sub-groups.
void place_undo_copies(rank_plan& p);

}  // namespace troupe::plan
