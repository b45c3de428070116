// Loads and stores of each type that is computed in fp32, as vectors of fp32, with the bits of half.hpp. Included once
// per SIMD target, after hwy/foreach_target.h. The operations are the same for one lane and for sixteen, so a loop's
// tail (`one_lane`) rounds like its body. No fused multiply-adds, because some targets have none.
#if defined(TROUPE_KERNELS_SIMD_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_SIMD_INL_HPP
#undef TROUPE_KERNELS_SIMD_INL_HPP
#else
#define TROUPE_KERNELS_SIMD_INL_HPP
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <type_traits>

#include "kernels/base/half.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using full = hn::ScalableTag<float>;
using one_lane = hn::CappedTag<float, 1>;
template <class D>
using bits_of = hn::RebindToUnsigned<D>;
template <class D>
using halves_of = hn::Rebind<uint16_t, D>;

template <class D>
using floats = hn::Vec<D>;
template <class D>
using words = hn::Vec<bits_of<D>>;

/// Rounds fp32 to bf16 in the upper 16 bits of each word; the lower 16 bits are arbitrary.
template <class D>
HWY_INLINE words<D> bf16_upper_bits(D /*d*/, floats<D> x) {
  const bits_of<D> du;
  const auto u = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(u), hn::Set(du, 1U));
  const auto rounded = hn::Add(u, hn::Add(odd, hn::Set(du, 0x7FFFU)));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), hn::Or(u, hn::Set(du, 0x00400000U)), rounded);
}

/// Rounds fp32 to bf16, and returns the result as fp32: the lower 16 bits are zero.
template <class D>
HWY_INLINE words<D> bf16_rounded_bits(D d, floats<D> x) {
  return hn::And(bf16_upper_bits(d, x), hn::Set(bits_of<D>(), 0xFFFF0000U));
}

// Processors from AVX2 on convert fp16 themselves, with the same bits.
#define TROUPE_KERNELS_NATIVE_F16 (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)

/// Rounds fp32 to f16, returned in the lower half of each word.
template <class D>
HWY_INLINE words<D> f16_bits(D d, floats<D> x) {
  const bits_of<D> du;
#if TROUPE_KERNELS_NATIVE_F16
  const hn::Rebind<hwy::float16_t, D> dh;
  return hn::PromoteTo(du, hn::BitCast(halves_of<D>(), hn::DemoteTo(dh, x)));
#else
  const auto u = hn::BitCast(du, x);
  const auto sign = hn::And(hn::ShiftRight<16>(u), hn::Set(du, 0x8000U));
  const auto magnitude = hn::And(u, hn::Set(du, 0x7FFFFFFFU));
  const auto nan = hn::Gt(magnitude, hn::Set(du, 0x7F800000U));
  const auto nan_bits = hn::Or(hn::Set(du, 0x7E00U), hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 0x3FFU)));
  const auto large_bits = hn::IfThenElse(nan, nan_bits, hn::Set(du, 0x7C00U));
  const auto small = hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5F)));
  const auto small_bits = hn::Sub(small, hn::Set(du, 0x3F000000U));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1U));
  const auto normal = hn::Add(hn::Sub(magnitude, hn::Set(du, 0x38000000U - 0xFFFU)), odd);
  auto out = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 0x38800000U)), small_bits, hn::ShiftRight<13>(normal));
  out = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x477FFFFFU)), large_bits, out);
  return hn::Or(out, sign);
#endif
}

template <class D>
HWY_INLINE floats<D> from_f16_bits(D d, words<D> h) {
  const bits_of<D> du;
#if TROUPE_KERNELS_NATIVE_F16
  const hn::Rebind<hwy::float16_t, D> dh;
  return hn::PromoteTo(d, hn::BitCast(dh, hn::TruncateTo(halves_of<D>(), h)));
#else
  const auto sign = hn::ShiftLeft<16>(hn::And(h, hn::Set(du, 0x8000U)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(h, hn::Set(du, 0x7FFFU)));
  const auto finite = hn::BitCast(du, hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112F)));
  const auto quiet = hn::IfThenElseZero(hn::Gt(magnitude, hn::Set(du, 0x0F800000U)), hn::Set(du, 0x00400000U));
  const auto special = hn::Or(hn::Or(magnitude, hn::Set(du, 0x70000000U)), quiet);
  const auto value = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x0F7FFFFFU)), special, finite);
  return hn::BitCast(d, hn::Or(value, sign));
#endif
}

/// Casts a pointer to elements to a pointer to their bits. Unlike the address of the element's member, the result may
/// point to memory of any alignment.
template <class T>
HWY_INLINE const uint16_t* bits_at(const T* p) {
  return reinterpret_cast<const uint16_t*>(p);
}
template <class T>
HWY_INLINE uint16_t* bits_at(T* p) {
  return reinterpret_cast<uint16_t*>(p);
}

template <class D>
HWY_INLINE floats<D> load(D d, const float* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE floats<D> load(D d, const bf16* p) {
  const auto h = hn::LoadU(halves_of<D>(), bits_at(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits_of<D>(), h)));
}
template <class D>
HWY_INLINE floats<D> load(D d, const f16* p) {
  return from_f16_bits(d, hn::PromoteTo(bits_of<D>(), hn::LoadU(halves_of<D>(), bits_at(p))));
}

template <class D>
HWY_INLINE void store(D d, floats<D> x, float* p) {
  hn::StoreU(x, d, p);
}
/// Rounds fp32 to the 16 bits of T.
template <class T, class D>
HWY_INLINE hn::Vec<halves_of<D>> rounded_halves(D d, floats<D> x) {
  if constexpr (std::is_same_v<T, bf16>) {
    return hn::TruncateTo(halves_of<D>(), hn::ShiftRight<16>(bf16_upper_bits(d, x)));
  } else {
    return hn::TruncateTo(halves_of<D>(), f16_bits(d, x));
  }
}
template <class D, class T>
HWY_INLINE void store(D d, floats<D> x, T* p) {
  hn::StoreU(rounded_halves<T>(d, x), halves_of<D>(), bits_at(p));
}

/// Stores a vector past the caches, for data that is written once and not read soon, so that the cache line is not read
/// before. `p` must be aligned to the stored bytes; the caller must call `hwy::FlushStream` after the last such store.
template <class D, class T>
HWY_INLINE void stream(D d, floats<D> x, T* p) {
  hn::Stream(rounded_halves<T>(d, x), halves_of<D>(), bits_at(p));
}

/// Calls `f(tag, index)` for every whole vector of `count` elements, then with `one_lane` as the tag for each remaining
/// element.
template <class F>
HWY_INLINE void for_each_vector(uint64_t count, F&& f) {
  const full d;
  const uint64_t lanes = hn::Lanes(d);
  uint64_t i = 0;
  for (; i + lanes <= count; i += lanes) f(d, i);
  for (; i < count; ++i) f(one_lane(), i);
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
