// Owns the layout of the vote, the doubles that all ranks exchange: square sums of gradients by block, losses, input
// ranges; and the square sums that `measure` exchanges.
#pragma once

#include <cstdint>

#include "core/math.hpp"
#include "plan/job_layout.hpp"

namespace troupe::plan {

/// Number of layers whose input ranges (least and largest element) are exchanged in the vote; 0 unless the step
/// trains.
inline uint64_t calibrated(const job_layout& l) {
  return l.options.mode == mode::train ? l.options.compressed.calibrated.size() : 0;
}
/// Offset, in doubles of the vote, of the loss of data position `data` in micro-batch `micro`.
inline uint64_t loss_offset(const job_layout& l, uint32_t data, uint32_t micro) {
  return l.num_blocks + uint64_t{data} * l.options.accumulation + micro;
}
/// Number of doubles in the vote: the square sums of all blocks; then, for each data coordinate, the losses of its
/// micro-batches; then, for each rank of a stage and each layer of compression_options::calibrated, the least and the
/// largest element of the layer's input.
inline uint64_t vote_elements(const job_layout& l) {
  return loss_offset(l, l.options.data(), 0) + 2 * calibrated(l) * l.options.data() * l.options.mesh.tensor_ranks();
}
/// Offset, in doubles of the vote, of the input range (least and largest element) that `rank` has measured for the
/// layer at index `k` of compression_options::calibrated.
inline uint64_t range_offset(const job_layout& l, uint32_t rank, uint64_t k) {
  const uint64_t place =
      uint64_t{l.options.mesh.data_at(rank)} * l.options.mesh.tensor_ranks() + l.options.mesh.tensor_at(rank);
  return loss_offset(l, l.options.data(), 0) + 2 * (place * calibrated(l) + k);
}
/// True if the vote contains the square sums of the bucket. False for a tied copy, whose original has the sums.
inline bool is_voted_on(const job_layout& l, uint32_t bucket) {
  return !l.is_copy(l.buckets[bucket].parameters.front().parameter);
}
/// Number of blocks (core::partition_grain elements) of the part of `parameter` that one rank of a tensor group
/// holds.
inline uint64_t blocks_each(const job_layout& l, uint32_t parameter) {
  return core::div_up(l.table->parameters[parameter].numel(), core::partition_grain);
}
/// Returns the index of a square sum in the vote: the first one of the elements of `parameter` that `rank`'s tensor
/// coordinate holds. The vote has one square sum for each block of core::partition_grain elements.
inline uint64_t first_block(const job_layout& l, uint32_t parameter, uint32_t rank) {
  return l.block_offset[parameter] +
         (l.is_cut(parameter) ? l.options.mesh.tensor_at(rank) * blocks_each(l, parameter) : 0);
}
/// Number of square sums of `parameter` in the vote, one for each block of core::partition_grain elements, over all
/// ranks of a tensor group.
uint64_t blocks_of(const job_layout& l, uint32_t parameter);
/// Number of doubles that `measure` exchanges: square sums per block of weights, then of update directions. 0 if no
/// parameter needs norms.
uint64_t measured_elements(const job_layout& l);

}  // namespace troupe::plan
