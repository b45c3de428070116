// Where parameters lie inside sets and reduced gradients inside buffers. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/layout/rank_slices.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Every parameter at a 64-byte boundary for elements of at least 2 bytes, in the order given.
parameter_set lay_out(const core::model_table& table, const std::vector<uint32_t>& parameters, std::string name);

/// Where a member of a set starts in it, in elements.
uint64_t offset_in(const parameter_set& set, uint32_t parameter);

/// Where the part of `parameter` that a rank keeps in the second copy of gather set `set` lies there, `at` being the
/// rank's offsets. In elements.
uint64_t near_place(const rank_slices& of_rank, const rank_offsets& at, uint32_t set, uint32_t parameter);

/// Elements of gather set `set` that a plan's rank keeps in the second copy.
uint64_t near_elements(const rank_plan& p, uint32_t set);

/// Where the reduced gradient of element `first` of `parameter` lies: an offset into its bucket's buffer
/// (`in_bucket`), else into the accumulated gradients or, where these are swapped, its bucket's window. In elements.
struct gradient_place {
  bool in_bucket = false;
  uint64_t offset = 0;
};
gradient_place reduced_gradient(const rank_plan& p, uint32_t parameter, uint64_t first);
/// The same on the rank of `of_rank`, whose offsets are `at`.
gradient_place reduced_gradient(const rank_slices& of_rank, const rank_offsets& at, uint32_t parameter, uint64_t first);

}  // namespace troupe::plan
