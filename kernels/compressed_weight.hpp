// What a module multiplies with instead of its weight while it is trained for fewer bits. Owns how the groups of a
// matrix lie in memory; the grid of a group is quantiser.hpp's, and which modules have one is not decided here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.hpp"
#include "kernels/quantiser.hpp"

namespace troupe::kernels {

/// A matrix of (rows, columns) elements, row by row, as (out, in): or as (in, out) where it is `transposed`, as GPT-2
/// has its linear layers. Groups are neighbouring elements of (out, in) in either case.
struct weight_recipe {
  quantiser grid;
  uint64_t groups = 1;  ///< divides the elements
  uint64_t rows = 0, columns = 0;
  bool transposed = false;

  [[nodiscard]] uint64_t elements() const { return rows * columns; }
  /// Elements of room beside the result: a group whose elements do not lie side by side is worked on there.
  [[nodiscard]] uint64_t room_elements() const;
};

/// `out` = the weight, each group on its grid (fake_quantise.hpp). The same bits for a matrix and its transpose.
/// `room`: room_elements() of the type.
void compress_weight(const weight_recipe& recipe, core::dtype type, const std::byte* weight, std::byte* out,
                     std::span<std::byte> room);

}  // namespace troupe::kernels
