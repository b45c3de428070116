// Sums of rows by group, for the gradient of an embedding: the gradients of all positions with the same token are added
// up.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// The rows that belong to each group: rows number order[begin[i]] to order[begin[i + 1] - 1] form group `i`.
struct row_groups {
  const int64_t* order = nullptr;
  /// `count` + 1 indices in `order`: where each group begins, and the end of the last one.
  const int64_t* begin = nullptr;
  uint64_t count = 0;
};

/// Computes sums[i] as the sum of the rows of group `i` of `rows`, each of `width` elements of `type`, added in the
/// group's order from 0 in fp32 (fp64 for f64) and rounded once.
void grouped_sums(const std::byte* rows, core::dtype type, uint64_t width, const row_groups& groups, std::byte* sums);

}  // namespace troupe::kernels
