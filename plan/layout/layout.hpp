// Where parameters lie inside buffers, slices and collectives. Pure functions of the plan's layouts.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/step_plan.hpp"

namespace troupe::plan {

/// A run of elements that a collective moves; the fabric's `piece` field for field.
struct moved_piece {
  uint32_t owner = 0;
  uint64_t from = 0, to = 0, count = 0;
  bool operator==(const moved_piece&) const = default;
};

/// Every parameter at a 64-byte boundary for elements of at least 2 bytes, in the order given.
parameter_set lay_out(const core::model_table& table, const std::vector<uint32_t>& parameters, std::string name);

/// Where a member of a set starts in it, in elements.
uint64_t offset_in(const parameter_set& set, uint32_t parameter);

/// gather: from the owner's slice layout into the set's.
std::vector<moved_piece> gather_pieces(const step_plan& p, uint32_t set);
/// reduce: from the bucket's layout to where reduced gradients lie (in place, full or slice layout).
std::vector<moved_piece> reduce_pieces(const step_plan& p, uint32_t bucket);
/// publish: within the full layout.
std::vector<moved_piece> publish_pieces(const step_plan& p, uint32_t set);
/// measure: within the doubles of `step_plan::measured_elements`.
std::vector<moved_piece> measure_pieces(const step_plan& p);
/// collect: every owner's slices, within the matrix set.
std::vector<moved_piece> collect_pieces(const step_plan& p, uint32_t set);
/// spread: whole matrices from those who made them orthogonal, within the matrix set.
std::vector<moved_piece> spread_pieces(const step_plan& p, uint32_t set);
/// vote: within the vote's doubles.
std::vector<moved_piece> vote_pieces(const step_plan& p);

/// Where the reduced gradient of element `first` of `parameter` lies: an offset into its bucket's buffer
/// (`in_bucket`), else into the accumulated gradients or, where these are swapped, its bucket's window. In elements.
struct gradient_place {
  bool in_bucket = false;
  uint64_t offset = 0;
};
gradient_place reduced_gradient(const step_plan& p, uint32_t parameter, uint64_t first);

}  // namespace troupe::plan
