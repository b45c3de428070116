// The SIMD form of exponential.hpp: the same operations on every lane. Included once per SIMD target, after
// hwy/foreach_target.h.
#if defined(TROUPE_KERNELS_EXPONENTIAL_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_EXPONENTIAL_INL_HPP
#undef TROUPE_KERNELS_EXPONENTIAL_INL_HPP
#else
#define TROUPE_KERNELS_EXPONENTIAL_INL_HPP
#endif

#include "kernels/base/exponential.hpp"
#include "kernels/base/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

/// Returns a + b * r.
template <class D>
HWY_INLINE floats<D> linear_term(D d, float a, float b, floats<D> r) {
  return hn::Add(hn::Set(d, a), hn::Mul(hn::Set(d, b), r));
}

/// Returns in each lane the power of two whose biased exponent is in the lowest bits of that lane of `shifted`.
template <class D>
HWY_INLINE floats<D> power_in(D d, floats<D> shifted) {
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(bits_of<D>(), shifted)));
}

template <class D>
HWY_INLINE floats<D> power_of_two(D d, floats<D> x) {
  const auto shift = hn::Set(d, exponent_shift);
  const auto shifted = hn::Add(x, shift);
  const auto r = hn::Sub(x, hn::Sub(shifted, shift)), square = hn::Mul(r, r);
  const auto& c = power_of_two_terms;
  const auto high = hn::Add(linear_term(d, c[2], c[3], r), hn::Mul(square, linear_term(d, c[4], c[5], r)));
  return hn::Mul(hn::Add(linear_term(d, c[0], c[1], r), hn::Mul(square, high)), power_in(d, shifted));
}

template <class D>
HWY_INLINE floats<D> exponential(D d, floats<D> x) {
  const auto shift = hn::Set(d, exponent_shift);
  const auto shifted = hn::Add(hn::Mul(x, hn::Set(d, log2_e)), shift), n = hn::Sub(shifted, shift);
  const auto r = hn::Sub(hn::Sub(x, hn::Mul(n, hn::Set(d, ln2_upper))), hn::Mul(n, hn::Set(d, ln2_lower)));
  const auto square = hn::Mul(r, r);
  const auto& c = exponential_terms;
  const auto highest = hn::Add(linear_term(d, c[4], c[5], r), hn::Mul(square, hn::Set(d, c[6])));
  const auto high = hn::Add(linear_term(d, c[2], c[3], r), hn::Mul(square, highest));
  const auto p = hn::Add(linear_term(d, c[0], c[1], r), hn::Mul(square, high));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, exponential_min)), hn::Mul(p, power_in(d, shifted)));
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
