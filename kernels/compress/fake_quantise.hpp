// Rounds values to the few numbers that their group's quantiser can represent (its grid), and stores them in their own
// type, as quantised weights and activations are during training. Owns the loops over memory; leaves the rules of
// quantisers to quantiser.hpp. The gradient of this operation is the identity (straight-through), so there is no
// backward function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.hpp"
#include "kernels/base/random.hpp"
#include "kernels/compress/quantiser.hpp"

namespace troupe::kernels {

/// `groups` groups of `group_size` neighbouring elements each, of type f64, f32, bf16 or f16. For example, a group is a
/// token's activations, or a row of an embedding.
struct grouped_values {
  const std::byte* x = nullptr;
  core::dtype type = core::dtype::f32;
  uint64_t groups = 1, group_size = 0;
};

/// Noise of stochastic rounding: an element's noise depends on its position in the whole parameter, so a part of a
/// parameter gets the same bits as the whole.
struct stochastic_rounding {
  rounding_key key;
  uint64_t first_element = 0;  ///< index of the first element of x in the whole parameter
};

/// Sets y to x with each group rounded to its own grid. Computed in fp32 (fp64 for f64), rounded to the type once; sums
/// of |x| are fp64: element i of a group is added to running sum i mod 16, and these 16 sums are added pairwise, the
/// upper half to the lower. A group without a range, or with a value that is not finite, keeps its values. y may be x.
/// `rounding`: null rounds to nearest; ternary and binary groups do not round.
void fake_quantise(const grouped_values& x, const quantiser& q, std::byte* y,
                   const stochastic_rounding* rounding = nullptr);

/// Sets `out`, which has x.groups entries, to the least and the largest value of each group. Used for grids whose
/// groups are spread over several ranks, and for static ranges of activations. Each group has at least one element.
void group_ranges(const grouped_values& x, std::span<value_range<double>> out);

/// Computes fake_quantise() with ranges that the caller knows: one per group, or one for all groups. `q` must be
/// symmetric or asymmetric.
void fake_quantise_within(const grouped_values& x, const quantiser& q, std::span<const value_range<double>> ranges,
                          std::byte* y, const stochastic_rounding* rounding = nullptr);

/// The sum of the magnitudes |x| of some elements, and the number of these elements.
struct magnitudes {
  double sum = 0, count = 0;
};

/// Returns the sum and the number of all |x| above `threshold`; a threshold of -1 includes all of them. The order of
/// additions is that of fake_quantise(). x is one group, or this rank's part of a group that is spread over ranks.
magnitudes sum_above(const grouped_values& x, double threshold);
/// Returns the threshold of a ternary group from `all`, the sum and number of all its magnitudes. Every rank that has a
/// part of the group then calls sum_above() with this threshold; the sum of all ranks' results is the argument `above`
/// of fake_quantise_by_sums(). A binary group has no threshold.
double ternary_threshold(core::dtype type, const magnitudes& all);
/// Computes fake_quantise() for this rank's part of a ternary or binary group. `all` and `above` are the whole group's
/// sum and number of all |x|, and of those above the threshold; a binary group does not read `above`.
void fake_quantise_by_sums(const grouped_values& x, const quantiser& q, const magnitudes& all, const magnitudes& above,
                           std::byte* y);

/// Scalar implementations of the functions of this file, with the same bits; for f64 they compute in fp64 throughout.
/// Tests compare the SIMD code with them.
void fake_quantise_reference(const grouped_values& x, const quantiser& q, std::byte* y,
                             const stochastic_rounding* rounding = nullptr);
void group_ranges_reference(const grouped_values& x, std::span<value_range<double>> out);
void fake_quantise_within_reference(const grouped_values& x, const quantiser& q,
                                    std::span<const value_range<double>> ranges, std::byte* y,
                                    const stochastic_rounding* rounding = nullptr);

}  // namespace troupe::kernels
