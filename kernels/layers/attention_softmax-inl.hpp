// Softmax and soft cap of a row of attention scores, forward and backward, in whole vectors. Scores are scaled for
// powers of 2 instead of e; the score of a key that the query does not see is -infinity. Included once per SIMD target,
// after hwy/foreach_target.h.
#if defined(TROUPE_KERNELS_ATTENTION_SOFTMAX_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_ATTENTION_SOFTMAX_INL_HPP
#undef TROUPE_KERNELS_ATTENTION_SOFTMAX_INL_HPP
#else
#define TROUPE_KERNELS_ATTENTION_SOFTMAX_INL_HPP
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/base/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

/// Returns 2^x for x <= 0, to one unit in the last place; 0 below 2^-126, NaN for NaN. The polynomial interpolates at
/// the Chebyshev nodes of [-1/2, 1/2].
HWY_INLINE floats<full> exponential2(full d, floats<full> x) {
  const hn::RebindToSigned<full> di;
  const auto n = hn::Round(x);
  const auto r = hn::Sub(x, n);
  auto p = hn::Set(d, 1.5461445e-4F);
  for (const float c : {1.3400428e-3F, 9.618057e-3F, 5.5503272e-2F, 0.24022651F, 0.69314718F, 1.0F})
    p = hn::MulAdd(p, r, hn::Set(d, c));
  const auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127))));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -126.0F)), hn::Mul(p, power));
}

/// Returns tanh(x), to three units in the last place; NaN for NaN. Near 0 by a polynomial that interpolates
/// (tanh(x) / x - 1) / x^2 at the Chebyshev nodes of x^2 in [0, 0.36], else by e^(-2 |x|).
HWY_INLINE floats<full> hyperbolic_tangent(full d, floats<full> x) {
  const auto size = hn::Abs(x), square = hn::Mul(x, x), one = hn::Set(d, 1.0F);
  auto p = hn::Set(d, -6.2763873e-3F);
  for (const float c : {2.1116214e-2F, -5.3875137e-2F, 0.13332924F, -0.3333333F})
    p = hn::MulAdd(p, square, hn::Set(d, c));
  const auto near = hn::MulAdd(hn::Mul(p, square), size, size);
  const auto power = exponential2(d, hn::Mul(size, hn::Set(d, -2.8853901F)));
  const auto far = hn::Div(hn::Sub(one, power), hn::Add(one, power));
  return hn::CopySign(hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.6F)), near, far), x);
}

/// Replaces each x of the `end` scores by limit * tanh(x). If `slopes` is not null, it receives 1 - tanh(x)^2.
HWY_INLINE void cap_scores(float* scores, size_t end, float limit, float* slopes) {
  const full d;
  for (size_t j = 0; j < end; j += hn::Lanes(d)) {
    const auto t = hyperbolic_tangent(d, hn::LoadU(d, scores + j));
    hn::StoreU(hn::Mul(t, hn::Set(d, limit)), d, scores + j);
    if (slopes != nullptr) hn::StoreU(hn::NegMulAdd(t, t, hn::Set(d, 1.0F)), d, slopes + j);
  }
}

/// Multiplies the `end` gradients of capped scores by the slopes that cap_scores() stored.
HWY_INLINE void cap_backward(float* gradients, size_t end, const float* slopes) {
  const full d;
  for (size_t j = 0; j < end; j += hn::Lanes(d))
    hn::StoreU(hn::Mul(hn::LoadU(d, gradients + j), hn::LoadU(d, slopes + j)), d, gradients + j);
}

HWY_INLINE floats<full> kept(full d, const uint8_t* keep, floats<full> x) {
  const hn::RebindToSigned<full> di;
  const hn::Rebind<uint8_t, full> bytes;
  return hn::IfThenElseZero(hn::RebindMask(d, hn::Ne(hn::PromoteTo(di, hn::LoadU(bytes, keep)), hn::Zero(di))), x);
}

/// Replaces each of the `end` scores by 2^(score - most), attention weights not yet divided by their sum; returns the
/// sum. `most` is the largest score.
HWY_INLINE float exponentials(float* scores, size_t end, float most) {
  const full d;
  const size_t lanes = hn::Lanes(d);
  auto sum = hn::Zero(d);
  for (size_t j = 0; j < end; j += lanes) {
    const auto e = exponential2(d, hn::Sub(hn::LoadU(d, scores + j), hn::Set(d, most)));
    hn::StoreU(e, d, scores + j);
    sum = hn::Add(sum, e);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

HWY_INLINE void drop(float* weights, size_t end, const uint8_t* keep) {
  const full d;
  for (size_t j = 0; j < end; j += hn::Lanes(d))
    hn::StoreU(kept(d, keep + j, hn::LoadU(d, weights + j)), d, weights + j);
}

/// Backward of softmax and dropout for one query. On entry `scores` has the exponentials, whose sum is 1 / `inverse`,
/// and `gradients` the gradients of the weights after dropout. On return `scores` has the weights after dropout, and
/// `gradients` the gradients of the scores.
template <bool Dropping>
HWY_INLINE void softmax_backward(float* scores, float inverse, float* gradients, size_t end, const uint8_t* keep,
                                 float factor) {
  const full d;
  const size_t lanes = hn::Lanes(d);
  auto dot = hn::Zero(d);
  for (size_t j = 0; j < end; j += lanes) {
    const auto w = hn::Mul(hn::LoadU(d, scores + j), hn::Set(d, inverse));
    auto g = hn::LoadU(d, gradients + j);
    if constexpr (Dropping) g = kept(d, keep + j, hn::Mul(g, hn::Set(d, factor)));
    dot = hn::MulAdd(w, g, dot);
    hn::StoreU(w, d, scores + j);
    if constexpr (Dropping) hn::StoreU(g, d, gradients + j);
  }
  const auto mean = hn::SumOfLanes(d, dot);
  for (size_t j = 0; j < end; j += lanes) {
    const auto w = hn::LoadU(d, scores + j);
    hn::StoreU(hn::Mul(w, hn::Sub(hn::LoadU(d, gradients + j), mean)), d, gradients + j);
    if constexpr (Dropping) hn::StoreU(kept(d, keep + j, hn::Mul(w, hn::Set(d, factor))), d, scores + j);
  }
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
