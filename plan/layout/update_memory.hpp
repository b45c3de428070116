// Owns the memory of updates: bytes that a sub-group's update touches, and undo copies of updates that run before the
// vote.
#pragma once

#include <cstdint>

#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Bytes that the optimizer reads and writes for one element of a parameter, in `prepare` and in the update itself.
struct optimizer_bytes {
  uint64_t prepared = 0, updated = 0;
};
optimizer_bytes optimizer_bytes_of(const plan_options& o, const parameter_update& update);

/// Bytes that `prepare` of a sub-group reads and writes, for parameters whose update needs more than their elements:
/// gradients and moments, and the weights that norms are taken of or the directions of matrices.
uint64_t prepared_bytes(const job_layout& l, const sub_group& group);
/// Bytes that the update of a sub-group reads and writes: weights, moments, gradients, and copies in the parameters'
/// type. If `prepare` has read a parameter's gradients and changed its moments, the update only reads its moments or
/// directions.
uint64_t updated_bytes(const job_layout& l, const sub_group& group);

/// Bytes of the undo copy of a piece: weights, moments and the 16-bit copy, each rounded up to 64 bytes, in the layout
/// of kernels::update_keeping. 0 if no step is ever skipped or clipped, so that nothing is undone.
uint64_t undo_bytes(const job_layout& l, const owned_piece& piece);
/// Bytes of the undo copy of a piece of sub-group `group` of a plan. States in the swap file need no undo copy, because
/// the file still has their former values in another place. The copy holds only the states that the update changes in
/// memory, including slices that are in memory as well as in the swap file.
uint64_t undo_bytes(const rank_plan& p, uint32_t group, const owned_piece& piece);

/// True if slices of `parameter` are kept in memory as well as in the swap file.
bool stays_beside_file(const job_layout& l, uint32_t parameter);

/// True if sub-groups may be updated before the vote. With swapped states only if nothing is ever undone, or if states
/// have two places in the swap file.
bool may_speculate(const job_layout& l);

/// Chooses the sub-groups that are updated before the vote, and assigns offsets to their undo copies. Requires that the
/// options and sub-groups of `p` are set.
void place_undo_copies(rank_plan& p);

}  // namespace troupe::plan
