// Owns the offsets of parameters in sets and of reduced gradients in buffers. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/layout/rank_slices.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Returns a set that contains the parameters in the given order. Each parameter starts at a 64-byte boundary for
/// elements of at least 2 bytes.
parameter_set lay_out(const core::model_table& table, const std::vector<uint32_t>& parameters, std::string name);

/// Returns the offset in elements of `parameter` in a set that contains it.
uint64_t offset_in(const parameter_set& set, uint32_t parameter);

/// Returns the offset, in elements, of a rank's part of `parameter` in its second copy (hpZ) of the parameters of
/// gather set `set`; `at` are the rank's offsets.
uint64_t near_place(const rank_slices& of_rank, const rank_offsets& at, uint32_t set, uint32_t parameter);

/// Returns the number of elements of gather set `set` that the plan's rank keeps in the second copy of parameters
/// (hpZ).
uint64_t near_elements(const rank_plan& p, uint32_t set);

/// Place of the reduced gradient of element `first` of `parameter`, in elements. `in_bucket`: `offset` is in the buffer
/// of the parameter's bucket. Else `offset` is in the accumulated gradients or, if these are swapped, in the window of
/// the bucket.
struct gradient_place {
  bool in_bucket = false;
  uint64_t offset = 0;
};
gradient_place reduced_gradient(const rank_plan& p, uint32_t parameter, uint64_t first);
/// Returns where a reduced gradient is stored on the rank of `of_rank`, whose offsets are `at`.
gradient_place reduced_gradient(const rank_slices& of_rank, const rank_offsets& at, uint32_t parameter, uint64_t first);

}  // namespace troupe::plan
