// The states of a model as one, by elements of its whole parameters, from and to the ranks that have them. Owns who is
// asked for what; state_store.hpp has one rank's.
#pragma once

#include <memory>
#include <vector>

#include "actors/memory/state_store.hpp"
#include "job/tensor/tensor.hpp"

namespace troupe::actors {

/// Between steps only, from one thread at a time; both outlive it.
class whole_states {
 public:
  whole_states(rank_memories ranks, const job::chosen_tensor& tensor) : ranks_(ranks), tensor_(tensor) {}

  /// As read_states(), of elements of the whole parameter.
  core::result<void> read(uint32_t parameter, plan::state_part part, plan::slice range, core::dtype type,
                          std::byte* out) const;
  /// As write_states(): on every rank that has some of them.
  core::result<void> write(uint32_t parameter, plan::state_part part, plan::slice range, core::dtype type,
                           const std::byte* in) const;

  [[nodiscard]] rank_memories ranks() const { return ranks_; }
  /// The ranks to whom element numbers of `parameter` mean what they mean to `rank`: those of its tensor coordinate
  /// where it is cut, else all.
  [[nodiscard]] std::vector<std::shared_ptr<rank_memory>> like(uint32_t rank, uint32_t parameter) const;

 private:
  template <class F>
  core::result<void> each_run(uint32_t parameter, plan::slice range, F use) const;

  rank_memories ranks_;
  const job::chosen_tensor& tensor_;
};

}  // namespace troupe::actors
