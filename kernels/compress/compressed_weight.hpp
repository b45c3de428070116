// The compressed copy of a weight, which a module multiplies with while it is trained for fewer bits. Owns the layout
// of a matrix's groups in memory; leaves the grid of a group to quantiser.hpp, and the choice of modules to its
// callers.
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
  uint64_t groups = 1;  ///< number of groups; a divisor of the number of elements
  uint64_t rows = 0, columns = 0;
  bool transposed = false;
  bool stochastic = false;  ///< true: elements are rounded with noise

  [[nodiscard]] uint64_t elements() const { return rows * columns; }
  /// Returns the elements of scratch memory besides the result: a group whose elements are not contiguous is computed
  /// there.
  [[nodiscard]] uint64_t room_elements() const;
};

/// The settings of a weight's compression that change from step to step.
struct weight_moment {
  /// Quantiser of this step, instead of the recipe's; needs no more scratch memory than that one.
  std::optional<quantiser> grid{};
  std::optional<rounding_key> noise{};  ///< noise of this step, for a recipe that rounds stochastically
  float kept = 0;                       ///< share of the uncompressed weight in the result
};

/// Sets `out` to the weight with each group on its grid (fake_quantise.hpp), mixed with the weight itself if `now.kept`
/// is not 0. A matrix and its transpose give the same bits. `room`: room_elements() elements of the type.
void compress_weight(const weight_recipe& recipe, core::dtype type, const std::byte* weight, std::byte* out,
                     std::span<std::byte> room, const weight_moment& now = {});

/// Copies elements [first, first + count) of a `transposed` matrix to the order (out, in), whatever its groups;
/// from_order copies all of them back.
void to_order(const weight_recipe& recipe, core::dtype type, const std::byte* weight, uint64_t first, uint64_t count,
              std::byte* ordered);
void from_order(const weight_recipe& recipe, core::dtype type, const std::byte* ordered, std::byte* weight);

/// Sets out = kept * weight + (1 - kept) * out, in fp32 (fp64 for f64), rounded to the type once; does nothing if
/// `kept` is 0.
void mix(core::dtype type, const std::byte* weight, std::byte* out, uint64_t elements, float kept);

}  // namespace troupe::kernels
