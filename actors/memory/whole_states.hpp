// The states of a model by elements of its whole parameters, read from and written to the ranks that have them. Owns
// the choice of ranks; state_store.hpp accesses one rank's states.
#pragma once

#include <memory>
#include <vector>

#include "actors/memory/state_store.hpp"
#include "job/tensor/tensor.hpp"

namespace troupe::actors {

/// Access to the states of the whole model, whose parameters may be split over tensor ranks. Use between steps and from
/// one thread at a time; `ranks` and `tensor` must outlive this object.
class whole_states {
 public:
  whole_states(rank_memories ranks, const job::chosen_tensor& tensor) : ranks_(ranks), tensor_(tensor) {}

  /// Reads elements of a whole parameter by read_states(), from ranks that hold them.
  core::result<void> read(uint32_t parameter, plan::state_part part, plan::slice range, core::dtype type,
                          std::byte* out) const;
  /// Writes elements of a whole parameter by write_states(), on every rank that has some of them.
  core::result<void> write(uint32_t parameter, plan::state_part part, plan::slice range, core::dtype type,
                           const std::byte* in) const;

  [[nodiscard]] rank_memories ranks() const { return ranks_; }
  /// Returns the ranks that number the elements of `parameter` as `rank` does: those of its tensor coordinate if the
  /// parameter is cut, else all.
  [[nodiscard]] std::vector<std::shared_ptr<rank_memory>> like(uint32_t rank, uint32_t parameter) const;

 private:
  template <class F>
  core::result<void> each_run(uint32_t parameter, plan::slice range, F use) const;

  rank_memories ranks_;
  const job::chosen_tensor& tensor_;
};

}  // namespace troupe::actors
