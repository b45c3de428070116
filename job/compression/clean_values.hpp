// Computes the values of cleaned parameters: masks of learned scores, weights on their grids, and the scales of these
// grids. Plain functions of numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/dtype.hpp"
#include "kernels/compress/compressed_weight.hpp"
#include "kernels/compress/weight_mask.hpp"

namespace troupe::job {

/// Returns a mask of the `kept` largest scores, after rounding them to `used`, the type of the run's parameters; among
/// equal scores the first ones are kept.
kernels::mask_bits mask_of_scores(std::span<const float> scores, uint64_t kept, core::dtype used);

/// Replaces all elements of a weight of type `type`, in memory order, by their values on the weight's quantisation
/// grid. First rounds them to `used`, the type of the parameters in the run that trained the weight.
void put_on_grid(const kernels::weight_recipe& recipe, core::dtype used, core::dtype type, std::span<std::byte> whole);

/// Returns for each group the distance of neighbouring grid points, for a weight that is on no grid yet; for ternary
/// and binary grids the size of the nonzero values; 0 for a group that stays unchanged. `recipe` must not be
/// asymmetric.
std::vector<float> scales_of_grid(const kernels::weight_recipe& recipe, core::dtype used,
                                  std::span<const float> weight);

}  // namespace troupe::job
