// Reads and writes the states of a model by the elements of its whole parameters, although a rank may hold only a
// part of each. Owns the choice of ranks; state_store.hpp accesses one rank's states.
#pragma once

#include <memory>
#include <vector>

#include "actors/memory/state_store.hpp"
#include "job/tensor/tensor.hpp"

namespace troupe::actors {

/// Access to the states of the whole model, whose parameters may be split over tensor-parallel ranks. Use between steps
/// and from one thread at a time; `ranks` and `tensor` must outlive this object.
class whole_states {
 public:
  whole_states(rank_memories ranks, const job::chosen_tensor& tensor) : ranks_(ranks), tensor_(tensor) {}

  /// Reads elements `range` of the whole parameter from ranks that hold them, converted to `type` (see read_states).
  core::result<void> read(uint32_t parameter, plan::state_part part, plan::slice range, core::dtype type,
                          std::byte* out) const;
  /// Writes elements `range` of the whole parameter, converted from `type`, on every rank that holds some of them (see
  /// write_states).
  core::result<void> write(uint32_t parameter, plan::state_part part, plan::slice range, core::dtype type,
                           const std::byte* in) const;

  [[nodiscard]] rank_memories ranks() const { return ranks_; }
  /// Returns the ranks that number the elements of `parameter` as `rank` does: those with the same tensor coordinate if
  /// the parameter is split over tensor ranks, else all ranks.
  [[nodiscard]] std::vector<std::shared_ptr<rank_memory>> like(uint32_t rank, uint32_t parameter) const;

 private:
  core::result<void> each_run(uint32_t parameter, plan::slice range, auto use) const;

  rank_memories ranks_;
  const job::chosen_tensor& tensor_;
};

}  // namespace troupe::actors
