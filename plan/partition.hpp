// Who owns which elements of which parameter. Owns the cut; leaves memory to layout.hpp.
//
// A parameter is cut into blocks of core::partition_grain elements; each rank owns one contiguous run of
// blocks, in rank order. So a block of the norm, a page of a file and a SIMD loop never have two owners.
#pragma once

#include <cstdint>
#include <vector>

#include "core/model_table.hpp"

namespace troupe::plan {

/// Elements [first, first + count) of a parameter. `count` may be 0.
struct slice {
  uint64_t first = 0;
  uint64_t count = 0;
  bool operator==(const slice&) const = default;
};

struct partition {  ///< who owns which elements of a parameter
  uint32_t ranks = 1;
  std::vector<std::vector<slice>> slices;  ///< [parameter][rank]

  [[nodiscard]] const slice& of(uint32_t parameter, uint32_t rank) const { return slices[parameter][rank]; }
  [[nodiscard]] uint64_t elements_of(uint32_t rank) const;
};

/// Cuts every parameter over `ranks`. Blocks that do not divide evenly go to the ranks that own least so far;
/// with `round_robin` (DeepSpeed's round_robin_gradients) to consecutive ranks from one parameter to the next.
partition make_partition(const core::model_table& table, uint32_t ranks, bool round_robin);

}  // namespace troupe::plan
