// What a module multiplies with instead of its weight while it is trained for fewer bits. Owns how the groups of a
// matrix lie in memory; the grid of a group is quantiser.hpp's, and which modules have one is not decided here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/dtype.hpp"
#include "kernels/base/random.hpp"
#include "kernels/compress/quantiser.hpp"

namespace troupe::kernels {

/// A matrix of (rows, columns) elements, row by row, as (out, in): or as (in, out) where it is `transposed`, as GPT-2
/// has its linear layers. Groups are neighbouring elements of (out, in) in either case.
struct weight_recipe {
  quantiser grid;
  uint64_t groups = 1;  ///< divides the elements
  uint64_t rows = 0, columns = 0;
  bool transposed = false;
  bool stochastic = false;  ///< elements are rounded with noise

  [[nodiscard]] uint64_t elements() const { return rows * columns; }
  /// Elements of room beside the result: a group whose elements do not lie side by side is worked on there.
  [[nodiscard]] uint64_t room_elements() const;
};

/// What changes from step to step.
struct weight_moment {
  std::optional<quantiser> grid{};      ///< instead of the recipe's, which needs as much room at least
  std::optional<rounding_key> noise{};  ///< of a recipe that is stochastic
  float kept = 0;                       ///< share of the weight itself in the result
};

/// `out` = the weight, each group on its grid (fake_quantise.hpp), and of that perhaps a mix with the weight. The same
/// bits for a matrix and its transpose. `room`: room_elements() of the type.
void compress_weight(const weight_recipe& recipe, core::dtype type, const std::byte* weight, std::byte* out,
                     std::span<std::byte> room, const weight_moment& now = {});

/// Elements [first, first + count) of a `transposed` matrix as (out, in), whatever its groups; and all of them back.
void to_order(const weight_recipe& recipe, core::dtype type, const std::byte* weight, uint64_t first, uint64_t count,
              std::byte* ordered);
void from_order(const weight_recipe& recipe, core::dtype type, const std::byte* ordered, std::byte* weight);

/// out = kept * weight + (1 - kept) * out, in fp32 (fp64 for f64) and rounded to the type once; nothing where `kept`
/// is 0.
void mix(core::dtype type, const std::byte* weight, std::byte* out, uint64_t elements, float kept);

}  // namespace troupe::kernels
