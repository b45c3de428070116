// Values of parameters when they are cleaned: masks of learned scores, weights on their grids, the scales of these.
// Plain functions of numbers, for whoever has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.hpp"
#include "kernels/compress/compressed_weight.hpp"
#include "kernels/compress/weight_mask.hpp"

namespace troupe::job {

/// The `kept` largest of them, of equal ones the first, as a run sees them whose parameters are of type `used`.
kernels::mask_bits mask_of_scores(std::span<const float> scores, uint64_t kept, core::dtype used);

/// All elements of a weight of type `type`, as it lies, as a run multiplied with them whose parameters are of type
/// `used`: from weights that are rounded to it.
void put_on_grid(const kernels::weight_recipe& recipe, core::dtype used, core::dtype type, std::span<std::byte> whole);

/// The distance of neighbouring points of each group's grid, of a weight that is on none yet; of ternary and binary
/// ones the size of what is not 0; 0 of a group that stays as it is. `recipe` is not asymmetric.
std::vector<float> scales_of_grid(const kernels::weight_recipe& recipe, core::dtype used,
                                  std::span<const float> weight);

}  // namespace troupe::job
