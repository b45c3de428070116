// Sums of rows by group, as the gradient of an embedding wants them: the rows of each token added up.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// Which rows make a group: those of numbers order[begin[i]] to order[begin[i + 1] - 1] make group `i`.
struct row_groups {
  const int64_t* order = nullptr;
  const int64_t* begin = nullptr;  ///< `count` + 1 numbers
  uint64_t count = 0;
};

/// sums[i] = the rows of group `i` of `rows`, each of `width` elements of `type`, added in the group's order from 0 in
/// fp32 (fp64 for f64) and rounded once.
void grouped_sums(const std::byte* rows, core::dtype type, uint64_t width, const row_groups& groups, std::byte* sums);

}  // namespace troupe::kernels
