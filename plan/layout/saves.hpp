// A rank's part of a checkpoint, cut into blocks that are copied and written one by one. Owns the order
// and the place of every element in the rank's file; names, digests and files are checkpoint/'s and actors/'.
#pragma once

#include <vector>

#include "plan/layout/rank_slices.hpp"
#include "plan/layout/writer_assignment.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Every piece begins at a multiple of this in its block and its file (docs/formats.md).
inline constexpr uint64_t save_grain_bytes = 4096;
/// Bytes of a block at most: one snapshot, one write.
inline constexpr uint64_t snapshot_block_bytes_max = uint64_t{4} << 20;
/// Blocks that the staging memory is cut into at least, so that one is filled while others are written.
inline constexpr uint64_t staging_blocks_min = 4;

/// dtype of a parameter's weights in a checkpoint: the master's, the parameter's own where it is frozen.
core::dtype saved_type(const job_layout& l, uint32_t parameter);

/// The elements that one rank writes, with its place among the writers looked up once for all parameters.
class saved_slices {
 public:
  explicit saved_slices(const rank_slices& of_rank);  ///< keeps `of_rank`, which has to outlive it
  /// The rank's share of its slice of `parameter`, which replicas hold too, or of a parameter that all data ranks hold;
  /// none where `save_options::writers` leaves them to others. The shares of all ranks cover every element once, of a
  /// parameter that is cut over tensor coordinates those of each. None of a copy.
  [[nodiscard]] slice of(uint32_t parameter) const;

 private:
  const rank_slices& mine_;
  writer_share of_slices_, of_wholes_;
};
slice saved_slice(const job_layout& l, uint32_t parameter, uint32_t rank);

/// Bytes of a block's slot in the staging memory, a multiple of save_grain_bytes: the same on all ranks.
uint64_t staging_slot_bytes(const job_layout& l);
/// Slots in the staging memory.
uint64_t staging_slots(const job_layout& l);

/// This rank's file after its header: weights of trained parameters, their first moments, their second, then frozen
/// parameters in blocks of their own; each in the table's order.
std::vector<snapshot_block> snapshot_blocks(const rank_slices& of_rank);

}  // namespace troupe::plan
