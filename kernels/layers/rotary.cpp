#include "kernels/layers/rotary.hpp"

#include <cstring>

#include "kernels/base/with_dtype.hpp"
#include "kernels/layers/rotary_element.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/layers/rotary.cpp"
#include <hwy/foreach_target.h>

#include "kernels/base/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

void turned_heads(const std::byte* from, std::byte* to, core::dtype type, uint64_t heads, uint64_t width,
                  const float* cosines, const float* sines, float sign) {
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    const uint64_t half = width / 2;
    for (uint64_t h = 0; h < heads; ++h) {
      const auto* in = reinterpret_cast<const T*>(from) + h * width;
      auto* out = reinterpret_cast<T*>(to) + h * width;
      for_each_vector(half, [=](auto d, uint64_t i) HWY_ATTR {
        const auto a = load(d, in + i), b = load(d, in + half + i);
        const auto c = hn::LoadU(d, cosines + i), s = hn::Mul(hn::Set(d, sign), hn::LoadU(d, sines + i));
        store(d, hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), out + i);
        store(d, hn::Add(hn::Mul(b, c), hn::Mul(a, s)), out + half + i);
      });
    }
  });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(turned_heads);

void turn_heads(const std::byte* from, std::byte* to, core::dtype type, uint64_t heads, uint64_t width,
                const float* cosines, const float* sines, bool back) {
  HWY_DYNAMIC_DISPATCH(turned_heads)(from, to, type, heads, width, cosines, sines, back ? -1.0F : 1.0F);
}

template <class Wide>
void turn_heads_reference(const std::byte* from, std::byte* to, core::dtype type, uint64_t heads, uint64_t width,
                          const Wide* cosines, const Wide* sines, bool back) {
  const uint64_t half = width / 2;
  with_float_dtype(type, [&]<class T>(std::type_identity<T>) {
    for (uint64_t h = 0; h < heads; ++h) {
      const auto* in = reinterpret_cast<const T*>(from) + h * width;
      auto* out = reinterpret_cast<T*>(to) + h * width;
      for (uint64_t i = 0; i < half; ++i) {
        const auto a = static_cast<Wide>(widen(in[i])), b = static_cast<Wide>(widen(in[half + i]));
        const auto pair = turned(a, b, cosines[i], back ? -sines[i] : sines[i]);
        out[i] = narrow<T>(pair.first);
        out[half + i] = narrow<T>(pair.second);
      }
    }
  });
}

void turn_tokens(const token_heads& x, const rotary_table& table) {
  const std::byte* from = x.from;
  std::byte* to = x.to;
  for (uint64_t token = 0; token < x.tokens; ++token, from += x.from_stride, to += x.to_stride) {
    if (table.cosines == nullptr) {
      std::memcpy(to, from, x.heads * x.width * core::size_of(x.type));
      continue;
    }
    const uint64_t position =
        token % table.columns - (table.starts == nullptr ? 0 : static_cast<uint64_t>(table.starts[token]));
    const uint64_t angle = position * (x.width / 2);
    if (x.type == core::dtype::f64)
      turn_heads_reference(from, to, x.type, x.heads, x.width, reinterpret_cast<const double*>(table.cosines) + angle,
                           reinterpret_cast<const double*>(table.sines) + angle, table.back);
    else
      turn_heads(from, to, x.type, x.heads, x.width, reinterpret_cast<const float*>(table.cosines) + angle,
                 reinterpret_cast<const float*>(table.sines) + angle, table.back);
  }
}

template void turn_heads_reference(const std::byte*, std::byte*, core::dtype, uint64_t, uint64_t, const float*,
                                   const float*, bool);
template void turn_heads_reference(const std::byte*, std::byte*, core::dtype, uint64_t, uint64_t, const double*,
                                   const double*, bool);

}  // namespace troupe::kernels
#endif
