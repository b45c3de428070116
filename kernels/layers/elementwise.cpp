#include "kernels/layers/elementwise.hpp"

#include "kernels/base/with_dtype.hpp"
#include "kernels/layers/activation_element.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/layers/elementwise.cpp"
#include <hwy/foreach_target.h>

#include "kernels/base/exponential-inl.hpp"
#include "kernels/base/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

/// Returns 2^t, with t clamped to [-power_max, power_max], so that the result is a normal float.
template <class D>
HWY_INLINE floats<D> bounded_power(D d, floats<D> t) {
  const auto limit = hn::Set(d, static_cast<float>(power_max));
  return power_of_two(d, hn::Min(hn::Max(t, hn::Neg(limit)), limit));
}

template <class D>
HWY_INLINE floats<D> constant(D d, double value) {
  return hn::Set(d, static_cast<float>(value));
}

void gelu(const std::byte* x, std::byte* y, core::dtype type, uint64_t count) {
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    const auto* in = reinterpret_cast<const T*>(x);
    auto* out = reinterpret_cast<T*>(y);
    for_each_vector(count, [=](auto d, uint64_t i) HWY_ATTR {
      const auto v = load(d, in + i);
      const auto cubic = hn::Mul(constant(d, gelu_third), hn::Mul(v, v));
      const auto t = hn::Mul(hn::Add(constant(d, gelu_first), cubic), v);
      store(d, hn::Div(v, hn::Add(hn::Set(d, 1.0F), bounded_power(d, t))), out + i);
    });
  });
}

template <bool Again, class T>
void gelu_backward_as(const T* in, const T* gradient, T* out, uint64_t count, T* y) {
  for_each_vector(count, [=](auto d, uint64_t i) HWY_ATTR {
    const auto one = hn::Set(d, 1.0F);
    const auto v = load(d, in + i), square = hn::Mul(v, v);
    const auto cubic = hn::Mul(constant(d, gelu_third), square);
    const auto t = hn::Mul(hn::Add(constant(d, gelu_first), cubic), v);
    const auto below = hn::Add(one, bounded_power(d, t)), s = hn::Div(one, below);
    if constexpr (Again) store(d, hn::Div(v, below), y + i);
    const auto slope = hn::Add(constant(d, gelu_slope_first), hn::Mul(constant(d, gelu_slope_third), square));
    const auto bend = hn::Mul(hn::Mul(v, slope), hn::Mul(s, hn::Sub(one, s)));
    store(d, hn::Mul(load(d, gradient + i), hn::Add(s, bend)), out + i);
  });
}

void gelu_backward(const std::byte* x, const std::byte* dy, std::byte* dx, core::dtype type, uint64_t count,
                   std::byte* y) {
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    const auto pass = y != nullptr ? gelu_backward_as<true, T> : gelu_backward_as<false, T>;
    pass(reinterpret_cast<const T*>(x), reinterpret_cast<const T*>(dy), reinterpret_cast<T*>(dx), count,
         reinterpret_cast<T*>(y));
  });
}

template <class D>
HWY_INLINE floats<D> sigmoid(D d, floats<D> x) {
  const auto one = hn::Set(d, 1.0F);
  return hn::Div(one, hn::Add(one, bounded_power(d, hn::Mul(constant(d, silu_first), x))));
}

void gated(const std::byte* gate, const std::byte* up, std::byte* y, core::dtype type, uint64_t count) {
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    const auto* x = reinterpret_cast<const T*>(gate);
    const auto* factor = reinterpret_cast<const T*>(up);
    auto* out = reinterpret_cast<T*>(y);
    for_each_vector(count, [=](auto d, uint64_t i) HWY_ATTR {
      const auto v = load(d, x + i);
      store(d, hn::Mul(hn::Mul(v, sigmoid(d, v)), load(d, factor + i)), out + i);
    });
  });
}

template <bool Again, class T>
void gated_backward_as(const T* gate, const T* up, const T* dy, T* dgate, T* dup, uint64_t count, T* out) {
  for_each_vector(count, [=](auto d, uint64_t i) HWY_ATTR {
    const auto v = load(d, gate + i), g = load(d, dy + i), u = load(d, up + i);
    const auto s = sigmoid(d, v), y = hn::Mul(v, s);
    if constexpr (Again) store(d, hn::Mul(y, u), out + i);
    // The slope of silu is s + v s (1 - s), with s = sigmoid(v).
    const auto slope = hn::Add(s, hn::Mul(y, hn::Sub(hn::Set(d, 1.0F), s)));
    store(d, hn::Mul(hn::Mul(g, u), slope), dgate + i);
    store(d, hn::Mul(g, y), dup + i);
  });
}

void gated_backward(const std::byte* gate, const std::byte* up, const std::byte* dy, std::byte* dgate, std::byte* dup,
                    core::dtype type, uint64_t count, std::byte* y) {
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    const auto pass = y != nullptr ? gated_backward_as<true, T> : gated_backward_as<false, T>;
    pass(reinterpret_cast<const T*>(gate), reinterpret_cast<const T*>(up), reinterpret_cast<const T*>(dy),
         reinterpret_cast<T*>(dgate), reinterpret_cast<T*>(dup), count, reinterpret_cast<T*>(y));
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
HWY_EXPORT(gated);
HWY_EXPORT(gated_backward);
HWY_EXPORT(kept);

void gelu_tanh(const std::byte* x, std::byte* y, core::dtype type, uint64_t count) {
  if (type == core::dtype::f64) return gelu_tanh_reference(x, y, type, count);
  HWY_DYNAMIC_DISPATCH(gelu)(x, y, type, count);
}

void gelu_tanh_backward(const std::byte* x, const std::byte* dy, std::byte* dx, core::dtype type, uint64_t count,
                        std::byte* y) {
  if (type == core::dtype::f64) return gelu_tanh_backward_reference(x, dy, dx, type, count, y);
  HWY_DYNAMIC_DISPATCH(gelu_backward)(x, dy, dx, type, count, y);
}

void silu_gated(const std::byte* gate, const std::byte* up, std::byte* y, core::dtype type, uint64_t count) {
  if (type == core::dtype::f64) return silu_gated_reference(gate, up, y, type, count);
  HWY_DYNAMIC_DISPATCH(gated)(gate, up, y, type, count);
}

void silu_gated_backward(const std::byte* gate, const std::byte* up, const std::byte* dy, std::byte* dgate,
                         std::byte* dup, core::dtype type, uint64_t count, std::byte* y) {
  if (type == core::dtype::f64) return silu_gated_backward_reference(gate, up, dy, dgate, dup, type, count, y);
  HWY_DYNAMIC_DISPATCH(gated_backward)(gate, up, dy, dgate, dup, type, count, y);
}

namespace {
/// Calls `f(std::type_identity<T>(), index)` for each element, with T the stored type of `type`.
template <class F>
void with_each(core::dtype type, uint64_t count, F&& f) {
  with_float_dtype(type, [&]<class T>(std::type_identity<T> stored) {
    for (uint64_t i = 0; i < count; ++i) f(stored, i);
  });
}
template <class T>
auto at(const std::byte* p, uint64_t i) {
  return widen(reinterpret_cast<const T*>(p)[i]);
}
template <class T, class Wide>
void put(std::byte* p, uint64_t i, Wide value) {
  reinterpret_cast<T*>(p)[i] = narrow<T>(value);
}
}  // namespace

void gelu_tanh_reference(const std::byte* x, std::byte* y, core::dtype type, uint64_t count) {
  with_each(type, count, [&]<class T>(std::type_identity<T>, uint64_t i) { put<T>(y, i, gelu_element(at<T>(x, i))); });
}

void gelu_tanh_backward_reference(const std::byte* x, const std::byte* dy, std::byte* dx, core::dtype type,
                                  uint64_t count, std::byte* y) {
  with_each(type, count, [&]<class T>(std::type_identity<T>, uint64_t i) {
    const auto v = at<T>(x, i);
    put<T>(dx, i, at<T>(dy, i) * gelu_slope(v));
    if (y != nullptr) put<T>(y, i, gelu_element(v));
  });
}

void silu_gated_reference(const std::byte* gate, const std::byte* up, std::byte* y, core::dtype type, uint64_t count) {
  with_each(type, count, [&]<class T>(std::type_identity<T>, uint64_t i) {
    put<T>(y, i, silu_gated_element(at<T>(gate, i), at<T>(up, i)));
  });
}

void silu_gated_backward_reference(const std::byte* gate, const std::byte* up, const std::byte* dy, std::byte* dgate,
                                   std::byte* dup, core::dtype type, uint64_t count, std::byte* out) {
  with_each(type, count, [&]<class T>(std::type_identity<T>, uint64_t i) {
    const auto slopes = silu_gated_slopes(at<T>(gate, i), at<T>(up, i), at<T>(dy, i));
    put<T>(dgate, i, slopes.gate);
    put<T>(dup, i, slopes.up);
    if (out != nullptr) put<T>(out, i, slopes.y);
  });
}

void scale_kept(std::byte* x, core::dtype type, const uint8_t* keep, double factor, uint64_t count) {
  if (type != core::dtype::f64) {
    HWY_DYNAMIC_DISPATCH(kept)(x, type, keep, static_cast<float>(factor), count);
    return;
  }
  auto* elements = reinterpret_cast<double*>(x);
  for (uint64_t i = 0; i < count; ++i) elements[i] = kept_element(elements[i], keep[i] != 0, factor);
}

}  // namespace troupe::kernels
#endif
