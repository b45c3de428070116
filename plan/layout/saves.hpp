// Owns a rank's part of a checkpoint, divided into blocks that are copied and written one by one: the order and the
// offset of every element in the rank's file. Leaves names, digests and files to checkpoint/ and actors/.
#pragma once

#include <vector>

#include "plan/layout/rank_slices.hpp"
#include "plan/layout/writer_assignment.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Alignment in bytes of every piece in its block and in its file (docs/formats.md).
inline constexpr uint64_t save_grain_bytes = 4096;
/// Maximum bytes of a block, which is one snapshot and one write.
inline constexpr uint64_t snapshot_block_bytes_max = uint64_t{4} << 20;
/// Minimum number of blocks in the staging memory, so that one is filled while others are written.
inline constexpr uint64_t staging_blocks_min = 4;

/// Returns the dtype of a parameter's weights in a checkpoint: the dtype of masters, or the parameter's own if it is
/// frozen.
core::dtype saved_type(const job_layout& l, uint32_t parameter);

/// The elements that one rank writes to a checkpoint. The rank's position among the writers is computed once for all
/// parameters.
class saved_slices {
 public:
  /// Keeps a reference to `of_rank`, which must outlive this object.
  explicit saved_slices(const rank_slices& of_rank);
  /// Returns the elements of `parameter` that the rank writes: some of its slice, if ranks with other copies of the
  /// states hold the same slice, or some of a parameter that all data ranks hold. Empty if `save_options::writers`
  /// assigns the elements to other ranks. The shares of all ranks cover every element once; for a parameter that is
  /// divided over tensor ranks, every element of each coordinate. Empty for a copy of a tied parameter and for a
  /// teacher's parameter.
  [[nodiscard]] slice of(uint32_t parameter) const;

 private:
  const rank_slices& mine_;
  writer_share of_slices_, of_wholes_;
};

/// Bytes of a block's slot in the staging memory, a multiple of save_grain_bytes; equal on all ranks.
uint64_t staging_slot_bytes(const job_layout& l);
/// Returns the number of snapshot blocks that the staging memory can hold at a time.
uint64_t staging_slots(const job_layout& l);

/// Returns the blocks that follow the header in this rank's file: weights of trained parameters, their first, second
/// and third moments, then frozen parameters in blocks of their own; each in the table's order.
std::vector<snapshot_block> snapshot_blocks(const rank_slices& of_rank);

}  // namespace troupe::plan
