// Quantisation of a tensor by groups, which have a scale of their own: the kinds of quantisers, the quantisers that a
// job's settings select, and the grid of a group. Owns the rules and the scalar arithmetic of one group and one
// element; leaves loops over memory to fake_quantise.hpp.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/error.hpp"
#include "kernels/base/device.hpp"
#include "kernels/compress/value_range.hpp"

namespace troupe::kernels {

/// Most bits of a quantised value: more bits would gain nothing over f16.
inline constexpr uint32_t max_quantiser_bits = 16;

/// Rule by which a group's values are reduced to few. With b bits, rounding to the nearest even integer:
///   symmetric   scale = max|x| / 2^(b-1); clamp(round(x / scale), -2^(b-1), 2^(b-1) - 1) * scale
///   asymmetric  scale = (max - min) / 2^b, zero = round(min / scale) * scale;
///               clamp(round((x - zero) / scale), 0, 2^b - 1) * scale + zero
///   ternary     t = 0.7 mean|x|, a = mean of |x| over |x| > t; a sign(x) where |x| > t, else 0
///   binary      sign(x) mean|x|
/// Source: DeepSpeed's compression/utils.py; Li, Zhang, Liu 2016 (arXiv:1605.04711), "Ternary weight networks".
enum class quantiser_kind : uint8_t { symmetric, asymmetric, ternary, binary };

struct quantiser {  ///< rule and number of bits with which the values of a group are quantised
  quantiser_kind kind = quantiser_kind::symmetric;
  uint32_t bits = 8;  ///< bits of a quantised value; 2 if it is ternary, 1 if it is binary

  [[nodiscard]] constexpr bool has_grid() const { return kind <= quantiser_kind::asymmetric; }
};

/// Returns the quantiser of weights with this many bits: 3 and more bits are symmetric or asymmetric, 2 are ternary, 1
/// is binary. Errors: 0 bits, more than max_quantiser_bits, 1 or 2 bits that are asymmetric.
core::result<quantiser> weight_quantiser(uint32_t bits, bool symmetric);
/// Returns the quantiser of activations with this many bits. Errors: a number of bits other than 4 or 8.
core::result<quantiser> activation_quantiser(uint32_t bits, bool symmetric);
/// Returns the number of elements of each of `groups` groups of a tensor. Errors: a number of groups that is 0 or does
/// not divide the number of elements.
core::result<uint64_t> elements_of_group(uint64_t elements, uint64_t groups);

/// The values that a group can take: integers from `lowest` to `highest`, times `scale`, plus `zero`.
template <class Real>
struct value_grid {
  Real scale = 0, zero = 0, lowest = 0, highest = 0;
  /// False: the group has no range, or an infinite one, and its values stay unchanged.
  bool quantises = false;
};

/// Constant that rounds to an integer: adding and then subtracting it rounds a number below 2^22 (2^51 in fp64) to the
/// nearest integer, ties to even.
template <class Real>
inline constexpr Real rounding_shift = std::numeric_limits<Real>::digits == 24 ? Real{0x1.8p23} : Real{0x1.8p52};

/// Returns the quantisation grid of a group whose values have this range.
template <class Real>
TROUPE_HOST_DEVICE value_grid<Real> grid_of(const quantiser& q, const value_range<Real>& range) {
  value_grid<Real> out;
  const auto levels = std::ldexp(Real{1}, static_cast<int>(q.bits));
  if (q.kind == quantiser_kind::symmetric) {
    out.scale = std::fmax(std::fabs(range.least), range.largest) * (2 / levels);
    if (std::isnan(range.least)) out.scale = range.least;
    out.lowest = -levels / 2;
    out.highest = levels / 2 - 1;
  } else {
    out.scale = (range.largest - range.least) / levels;
    out.zero = std::nearbyint(range.least / out.scale) * out.scale;
    out.highest = levels - 1;
  }
  out.quantises = out.scale > 0 && std::isfinite(out.scale) && std::isfinite(out.zero);
  return out;
}

/// Returns `x` rounded to the grid `g` of its group, to the nearest integer multiple, after adding `noise`, which is in
/// [-0.5, 0.5) of a step; 0 rounds to nearest even.
template <class Real>
TROUPE_HOST_DEVICE Real on_grid(Real x, const value_grid<Real>& g, Real noise) {
  Real v = (x - g.zero) / g.scale;
  v = v < g.lowest - 1 ? g.lowest - 1 : v;  // limits v, so that adding rounding_shift rounds it; NaN stays NaN
  v = v > g.highest + 1 ? g.highest + 1 : v;
  v = ((v + noise) + rounding_shift<Real>)-rounding_shift<Real>;
  v = v < g.lowest ? g.lowest : v;
  v = v > g.highest ? g.highest : v;
  return v * g.scale + g.zero;
}

/// Parameters of a ternary or binary group: an element becomes `size` with its own sign if |x| is above the threshold,
/// else 0.
template <class Real>
struct value_signs {
  Real threshold = 0, size = 0;
};

/// Returns an element of a ternary or binary group after quantisation.
template <class Real>
TROUPE_HOST_DEVICE Real as_sign(Real x, const value_signs<Real>& s) {
  return x > s.threshold ? s.size : x < -s.threshold ? -s.size : Real{0};
}

/// Range of an activation's values, tracked over batches, for a quantiser with a static range.
struct activation_range {
  float least = 0, largest = 0;
  [[nodiscard]] bool is_known() const { return least != largest; }
  bool operator==(const activation_range&) const = default;
};
inline constexpr float activation_momentum = 0.95F;

/// Updates the tracked range with the range `seen` of a batch: to `seen` if the tracked range's two ends are equal, as
/// at the start; afterwards to momentum * old + (1 - momentum) * seen.
void follow(activation_range& range, const value_range<double>& seen, float momentum = activation_momentum);

}  // namespace troupe::kernels
