// The compressed copy of a weight: its values rounded to few bits, with which a module multiplies while it is trained
// for fewer bits. Owns the layout of a matrix's groups in memory; leaves the grid of a group to quantiser.hpp, and the
// choice of modules to its callers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/dtype.hpp"
#include "kernels/base/random.hpp"
#include "kernels/compress/quantiser.hpp"

namespace troupe::kernels {

/// Shape and quantiser of a weight: a matrix of (rows, columns) elements, row by row, stored as (out, in), or as (in,
/// out) if it is `transposed`, as GPT-2 stores its linear layers. In either case, groups are neighbouring elements of
/// (out, in).
struct weight_recipe {
  quantiser grid;
  uint64_t groups = 1;  ///< number of groups that have a grid of their own; a divisor of the number of elements
  uint64_t rows = 0, columns = 0;
  bool transposed = false;
  bool stochastic = false;  ///< true: elements are rounded stochastically, with the noise of weight_moment

  [[nodiscard]] uint64_t elements() const { return rows * columns; }
  /// Returns how many elements of scratch memory compress_weight() needs besides its result: the number of elements
  /// of one group, if a group's elements are not contiguous in memory and are copied; else 0.
  [[nodiscard]] uint64_t room_elements() const;
};

/// The settings of a weight's compression that change from step to step.
struct weight_moment {
  /// Quantiser of this step, which replaces the quantiser of the recipe; null: the recipe's quantiser is used. Must
  /// not need more scratch memory than the recipe's quantiser does.
  std::optional<quantiser> grid{};
  /// Key of this step's rounding noise, for a recipe that is `stochastic`; null: rounds to nearest.
  std::optional<rounding_key> noise{};
  float kept = 0;  ///< factor of the uncompressed weight in the result; the compressed one has the factor 1 - kept
};

/// Sets `out` to the weight with each group rounded to its grid (fake_quantise.hpp), mixed with the weight itself if
/// `now.kept` is not 0. A matrix and its transpose give the same bits. `room`: scratch memory of room_elements()
/// elements of the type.
void compress_weight(const weight_recipe& recipe, core::dtype type, const std::byte* weight, std::byte* out,
                     std::span<std::byte> room, const weight_moment& now = {});

/// to_order copies elements [first, first + count), counted in the order (out, in), of a `transposed` matrix into that
/// order, whatever its groups; from_order copies all elements back.
void to_order(const weight_recipe& recipe, core::dtype type, const std::byte* weight, uint64_t first, uint64_t count,
              std::byte* ordered);
void from_order(const weight_recipe& recipe, core::dtype type, const std::byte* ordered, std::byte* weight);

/// Sets out = kept * weight + (1 - kept) * out, in fp32 (fp64 for f64), rounded to the type once; does nothing if
/// `kept` is 0.
void mix(core::dtype type, const std::byte* weight, std::byte* out, uint64_t elements, float kept);

}  // namespace troupe::kernels
