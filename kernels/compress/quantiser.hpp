// What it means to quantise values by groups: which quantisers there are, which jobs have them, the grid of a group.
// Owns the rules and the scalar arithmetic of one group and one element; loops over memory are fake_quantise.hpp's.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/error.hpp"
#include "kernels/base/device.hpp"

namespace troupe::kernels {

/// Bits of a quantised value: with more there is nothing to gain over f16.
inline constexpr uint32_t max_quantiser_bits = 16;

/// How a group's values become few. With b bits, rounding to the nearest even integer:
///   symmetric   scale = max|x| / 2^(b-1); clamp(round(x / scale), -2^(b-1), 2^(b-1) - 1) * scale
///   asymmetric  scale = (max - min) / 2^b, zero = round(min / scale) * scale;
///               clamp(round((x - zero) / scale), 0, 2^b - 1) * scale + zero
///   ternary     t = 0.7 mean|x|, a = mean of |x| over |x| > t; a sign(x) where |x| > t, else 0
///   binary      sign(x) mean|x|
/// Source: DeepSpeed's compression/utils.py; Li, Zhang, Liu 2016 (arXiv:1605.04711), "Ternary weight networks".
enum class quantiser_kind : uint8_t { symmetric, asymmetric, ternary, binary };

struct quantiser {  ///< of a group's values
  quantiser_kind kind = quantiser_kind::symmetric;
  uint32_t bits = 8;  ///< ternary and binary have 2 and 1

  [[nodiscard]] constexpr bool has_grid() const { return kind <= quantiser_kind::asymmetric; }
};

/// That of weights by their bits: 3 and more have a grid, 2 are ternary, 1 is binary. Refused: none or more than the
/// limit, 1 or 2 that are asymmetric.
core::result<quantiser> weight_quantiser(uint32_t bits, bool symmetric);
/// That of activations: 4 or 8 bits, else refused.
core::result<quantiser> activation_quantiser(uint32_t bits, bool symmetric);
/// Elements of each of `groups` groups of a tensor. Refused: groups that do not divide it, or none.
core::result<uint64_t> elements_of_group(uint64_t elements, uint64_t groups);

/// The least and the largest of some values. One that is not a number makes both such.
template <class Real>
struct value_range {
  Real least = 0, largest = 0;
};

/// The range of what lies in either; none if one of them is none. {infinity, -infinity} is that of nothing.
inline value_range<double> joined(const value_range<double>& a, const value_range<double>& b) {
  if (std::isnan(a.least) || std::isnan(b.least)) return {std::nan(""), std::nan("")};
  return {std::fmin(a.least, b.least), std::fmax(a.largest, b.largest)};
}

/// The values that a group can take: integers from `lowest` to `highest`, times `scale`, plus `zero`.
template <class Real>
struct value_grid {
  Real scale = 0, zero = 0, lowest = 0, highest = 0;
  /// False of a group without a range, or with one that is not finite: its values stay as they are.
  bool quantises = false;
};

/// Adding and taking this away rounds to the nearest even integer what is below 2^22 (2^51).
template <class Real>
inline constexpr Real rounding_shift = std::numeric_limits<Real>::digits == 24 ? Real{0x1.8p23} : Real{0x1.8p52};

/// The grid of a group with this range.
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

/// One element on its grid, rounded to nearest even after `noise` was added, which is within a half.
template <class Real>
TROUPE_HOST_DEVICE Real on_grid(Real x, const value_grid<Real>& g, Real noise) {
  Real v = (x - g.zero) / g.scale;
  v = v < g.lowest - 1 ? g.lowest - 1 : v;  // so that the shift rounds; what is not a number stays so
  v = v > g.highest + 1 ? g.highest + 1 : v;
  v = ((v + noise) + rounding_shift<Real>)-rounding_shift<Real>;
  v = v < g.lowest ? g.lowest : v;
  v = v > g.highest ? g.highest : v;
  return v * g.scale + g.zero;
}

/// What ternary and binary quantisers know of a group: `size` with x's sign where |x| is above the threshold, else 0.
template <class Real>
struct value_signs {
  Real threshold = 0, size = 0;
};

/// One element of such a group.
template <class Real>
TROUPE_HOST_DEVICE Real as_sign(Real x, const value_signs<Real>& s) {
  return x > s.threshold ? s.size : x < -s.threshold ? -s.size : Real{0};
}

/// An activation's range over batches, of a static quantiser.
struct activation_range {
  float least = 0, largest = 0;
  [[nodiscard]] bool is_known() const { return least != largest; }
  bool operator==(const activation_range&) const = default;
};
inline constexpr float activation_momentum = 0.95F;

/// The range after a batch with the range `seen`: that one where the two ends were equal, as at the begin; then
/// momentum * old + (1 - momentum) * seen.
void follow(activation_range& range, const value_range<double>& seen, float momentum = activation_momentum);

}  // namespace troupe::kernels
