#include "kernels/elementwise.hpp"

#include <cassert>

#include "kernels/with_dtype.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise.cpp"
#include <hwy/foreach_target.h>

#include "kernels/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

/// e^x for |x| <= 87, to 2 units in the last place: 2^n times a polynomial in what remains, at most ln(2) / 2.
template <class D>
HWY_INLINE floats<D> exponential(D d, floats<D> x) {
  const hn::RebindToSigned<D> di;
  const auto n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504F)));
  // ln 2 in two parts; the first has so few bits that n times it is exact
  auto r = hn::Sub(x, hn::Mul(n, hn::Set(d, 0.693359375F)));
  r = hn::Add(r, hn::Mul(n, hn::Set(d, 2.12194440e-4F)));
  auto p = hn::Set(d, 1.0F / 5040);
  for (const float c : {1.0F / 720, 1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F, 1.0F, 1.0F})
    p = hn::Add(hn::Mul(p, r), hn::Set(d, c));
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  return hn::Mul(p, hn::BitCast(d, power));
}

template <class D>
HWY_INLINE floats<D> sigmoid(D d, floats<D> x) {
  const auto bounded = hn::Min(hn::Max(hn::Neg(x), hn::Set(d, -87.0F)), hn::Set(d, 87.0F));
  const auto one = hn::Set(d, 1.0F);
  return hn::Div(one, hn::Add(one, exponential(d, bounded)));
}

constexpr float twice_sqrt_2_over_pi = 1.5957691216F;
constexpr float cubic = 0.044715F;

void gelu(const std::byte* x, std::byte* y, core::dtype type, uint64_t count) {
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    const auto* in = reinterpret_cast<const T*>(x);
    auto* out = reinterpret_cast<T*>(y);
    for_each_vector(count, [&](auto d, uint64_t i) HWY_ATTR {
      const auto v = load(d, in + i);
      const auto cube = hn::Mul(hn::Mul(hn::Set(d, cubic), hn::Mul(v, v)), v);
      const auto z = hn::Mul(hn::Set(d, twice_sqrt_2_over_pi), hn::Add(v, cube));
      store(d, hn::Mul(v, sigmoid(d, z)), out + i);
    });
  });
}

void gelu_backward(const std::byte* x, const std::byte* dy, std::byte* dx, core::dtype type, uint64_t count) {
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    const auto* in = reinterpret_cast<const T*>(x);
    const auto* gradient = reinterpret_cast<const T*>(dy);
    auto* out = reinterpret_cast<T*>(dx);
    for_each_vector(count, [&](auto d, uint64_t i) HWY_ATTR {
      const auto v = load(d, in + i);
      const auto one = hn::Set(d, 1.0F), factor = hn::Set(d, twice_sqrt_2_over_pi);
      const auto square = hn::Mul(hn::Set(d, cubic), hn::Mul(v, v));
      const auto s = sigmoid(d, hn::Mul(factor, hn::Add(v, hn::Mul(square, v))));
      // s + v s (1 - s) z', z' = factor (1 + 3 cubic v^2)
      const auto slope = hn::Mul(factor, hn::Add(one, hn::Mul(hn::Set(d, 3.0F), square)));
      const auto bend = hn::Mul(hn::Mul(v, slope), hn::Mul(s, hn::Sub(one, s)));
      store(d, hn::Mul(load(d, gradient + i), hn::Add(s, bend)), out + i);
    });
  });
}

void kept(std::byte* x, core::dtype type, const uint8_t* keep, float factor, uint64_t count) {
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    auto* elements = reinterpret_cast<T*>(x);
    for_each_vector(count, [&](auto d, uint64_t i) HWY_ATTR {
      const hn::Rebind<uint8_t, decltype(d)> bytes;
      const hn::RebindToSigned<decltype(d)> words_of;
      const auto kept = hn::Ne(hn::PromoteTo(words_of, hn::LoadU(bytes, keep + i)), hn::Zero(words_of));
      const auto scaled = hn::Mul(load(d, elements + i), hn::Set(d, factor));
      store(d, hn::IfThenElseZero(hn::RebindMask(d, kept), scaled), elements + i);
    });
  });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(gelu);
HWY_EXPORT(gelu_backward);
HWY_EXPORT(kept);

void gelu_tanh(const std::byte* x, std::byte* y, core::dtype type, uint64_t count) {
  HWY_DYNAMIC_DISPATCH(gelu)(x, y, type, count);
}

void gelu_tanh_backward(const std::byte* x, const std::byte* dy, std::byte* dx, core::dtype type, uint64_t count) {
  HWY_DYNAMIC_DISPATCH(gelu_backward)(x, dy, dx, type, count);
}

void scale_kept(std::byte* x, core::dtype type, const uint8_t* keep, double factor, uint64_t count) {
  if (type != core::dtype::f64) {
    HWY_DYNAMIC_DISPATCH(kept)(x, type, keep, static_cast<float>(factor), count);
    return;
  }
  auto* elements = reinterpret_cast<double*>(x);
  for (uint64_t i = 0; i < count; ++i) elements[i] = keep[i] != 0 ? elements[i] * factor : 0.0;
}

}  // namespace troupe::kernels
#endif
