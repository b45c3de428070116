// Values put onto the grid of their group and kept in their own type: what quantised weights and activations are while
// they are trained. Owns the loops over memory; quantiser.hpp says what a quantiser does. Backward is the identity
// (straight through), so there is none here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "kernels/base/random.hpp"
#include "kernels/compress/quantiser.hpp"

namespace troupe::kernels {

/// `groups` groups of `group_size` neighbouring elements each, of type f64, f32, bf16 or f16. A token of activations
/// and a row of an embedding are groups.
struct grouped_values {
  const std::byte* x = nullptr;
  core::dtype type = core::dtype::f32;
  uint64_t groups = 1, group_size = 0;
};

/// Stochastic rounding: each element's noise is that of its place in the whole parameter, so that whoever quantises
/// some of it has the same bits.
struct stochastic_rounding {
  rounding_key key;
  uint64_t first_element = 0;  ///< of the parameter: where x begins
};

/// y = x, each group on its own grid. In fp32 (fp64 for f64), rounded to the type once; sums of |x| in fp64: element i
/// of a group belongs to lane i mod 16, lanes are added in halves. A group without a range, or that holds what is not
/// finite, keeps its values. y may be x. `rounding`: null rounds to nearest; ternary and binary do not round.
/// Refused (bad_input), here and below, with nothing written: values or a result without memory, a type that is not a
/// floating one, a quantiser of no bits or more than max_quantiser_bits, ranges that are neither one nor one per group,
/// a result that overlaps the values, unless it takes their place, or ranges that overlap what is read or written.
core::result<void> fake_quantise(const grouped_values& x, const quantiser& q, std::byte* y,
                                 const stochastic_rounding* rounding = nullptr);

/// The least and the largest value of each group: `out` has x.groups. For quantisers with a grid whose groups lie on
/// several ranks, and for static ranges of activations. Refused: groups of no elements, too.
core::result<void> group_ranges(const grouped_values& x, std::span<value_range<double>> out);

/// fake_quantise() with ranges that are known: those of all groups, or one for all of them. `q` has a grid.
core::result<void> fake_quantise_within(const grouped_values& x, const quantiser& q,
                                        std::span<const value_range<double>> ranges, std::byte* y,
                                        const stochastic_rounding* rounding = nullptr);

/// Some magnitudes: their sum, and how many they are.
struct magnitudes {
  double sum = 0, count = 0;
};

/// Of all |x| above `threshold`, below which nothing is where it is -1; added as in fake_quantise(). x is one group, or
/// a part of one whose others lie elsewhere.
core::result<magnitudes> sum_above(const grouped_values& x, double threshold);
/// What ternary and binary groups of a type become, of which `all` are the magnitudes: signs with `above` added by
/// whoever has a part. Binary ones need no `above`.
double ternary_threshold(core::dtype type, const magnitudes& all);
/// fake_quantise() of a part of such a group.
core::result<void> fake_quantise_by_sums(const grouped_values& x, const quantiser& q, const magnitudes& all,
                                         const magnitudes& above, std::byte* y);

/// The scalar twins: the same bits; fp64 throughout for f64.
void fake_quantise_reference(const grouped_values& x, const quantiser& q, std::byte* y,
                             const stochastic_rounding* rounding = nullptr);
void group_ranges_reference(const grouped_values& x, std::span<value_range<double>> out);
void fake_quantise_within_reference(const grouped_values& x, const quantiser& q,
                                    std::span<const value_range<double>> ranges, std::byte* y,
                                    const stochastic_rounding* rounding = nullptr);

}  // namespace troupe::kernels
