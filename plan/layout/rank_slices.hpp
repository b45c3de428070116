// Owns the view of a layout for one rank, with that rank's coordinates looked up once, because a plan of thousands of
// ranks reads every parameter of each of them.
#pragma once

#include "plan/job_layout.hpp"
#include "plan/vote_layout.hpp"

namespace troupe::plan {

class rank_slices {
 public:
  rank_slices(const job_layout& l, uint32_t rank)
      : l_(l),
        rank_(rank),
        pipeline_(l.options.mesh.pipeline_at(rank)),
        data_(l.options.mesh.data_at(rank)),
        tensor_(l.options.mesh.tensor_at(rank)),
        replica_(data_ / l.options.shards()),
        shard_(data_ % l.options.shards()),
        updates_all_(l.options.updates_all()) {}

  [[nodiscard]] const job_layout& layout() const { return l_; }
  [[nodiscard]] uint32_t rank() const { return rank_; }
  [[nodiscard]] uint32_t data() const { return data_; }
  [[nodiscard]] uint32_t replica() const { return replica_; }
  [[nodiscard]] uint32_t tensor() const { return tensor_; }
  [[nodiscard]] uint32_t pipeline() const { return pipeline_; }
  [[nodiscard]] bool holds(uint32_t parameter) const { return l_.pipeline_of[parameter] == pipeline_; }
  /// Returns the elements of a parameter that this rank owns, as job_layout::slice_of does.
  [[nodiscard]] slice of(uint32_t parameter) const {
    return holds(parameter) ? l_.partition.of(parameter, shard_) : slice{};
  }
  /// Returns the elements of a parameter for which this rank stores optimizer states, as job_layout::state_slice does.
  [[nodiscard]] slice state(uint32_t parameter) const {
    if (!l_.trains(parameter)) return {};
    if (!updates_all_) return of(parameter);
    return holds(parameter) ? slice{0, l_.table->parameters[parameter].numel()} : slice{};
  }
  /// Returns the elements of a parameter that this rank keeps in the second copy of parameters (hpZ); empty for a
  /// parameter that is gathered for the whole step.
  [[nodiscard]] slice near(uint32_t parameter) const {
    if (!l_.options.has_near_copies() || l_.persistent[parameter] || !holds(parameter)) return {};
    return l_.near_partition.of(parameter, shard_ % l_.options.gathering.near);
  }
  /// Returns the index, among the square sums in the vote, of the first one of the rank's slice of a parameter. The
  /// rank must own elements of the parameter.
  [[nodiscard]] uint64_t first_block(uint32_t parameter) const {
    return l_.block_offset[parameter] + (l_.is_cut(parameter) ? tensor_ * blocks_each(l_, parameter) : 0) +
           of(parameter).first / core::partition_grain;
  }

 private:
  const job_layout& l_;
  uint32_t rank_, pipeline_, data_, tensor_, replica_, shard_;
  bool updates_all_;
};

}  // namespace troupe::plan
