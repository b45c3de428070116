#include "kernels/base/cast.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/base/with_dtype.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/base/cast.cpp"
#include <hwy/foreach_target.h>

#include "kernels/base/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

/// Least magnitude that becomes infinity when it is rounded to a narrower type.
template <class To>
constexpr float infinite_from = std::is_same_v<To, f16> ? 65520.0F : 0x1.FFp127F;

template <class From, class To>
constexpr bool loses_range = !std::is_same_v<From, To> && !std::is_same_v<To, float> && !std::is_same_v<From, f16>;

template <class From, class To>
std::optional<cast_overflow> cast_as(const std::byte* in, std::byte* out, uint64_t count) {
  const full d;
  const uint64_t lanes = hn::Lanes(d);
  std::optional<cast_overflow> lost;
  const auto vector = [&](const From* from, To* to, uint64_t at) HWY_ATTR {
    const auto x = load(d, from);
    if constexpr (loses_range<From, To>) {
      const auto size = hn::Abs(x);
      const auto beyond = hn::And(hn::Ge(size, hn::Set(d, infinite_from<To>)),
                                  hn::Lt(size, hn::Set(d, std::numeric_limits<float>::infinity())));
      if (!hn::AllFalse(d, beyond) && !lost) {
        float values[hn::MaxLanes(full())];
        hn::StoreU(x, d, values);
        const auto lane = static_cast<size_t>(hn::FindFirstTrue(d, beyond));
        lost = {at + lane, static_cast<double>(values[lane])};
      }
    }
    store(d, x, to);
  };
  const auto* from = reinterpret_cast<const From*>(in);
  auto* to = reinterpret_cast<To*>(out);
  uint64_t i = 0;
  for (; i + lanes <= count; i += lanes) vector(from + i, to + i, i);
  if (const uint64_t left = count - i; left > 0) {  // the last elements, fewer than a vector, are padded with zeros
    From last[hn::MaxLanes(full())] = {};
    To made[hn::MaxLanes(full())];
    std::memcpy(last, from + i, left * sizeof(From));
    vector(last, made, i);
    std::memcpy(to + i, made, left * sizeof(To));
  }
  return lost;
}

std::optional<cast_overflow> cast_fp32(const std::byte* in, core::dtype from, std::byte* out, core::dtype to,
                                       uint64_t count) {
  return with_fp32_dtype(from, [&]<class From>(std::type_identity<From>) {
    return with_fp32_dtype(to, [&]<class To>(std::type_identity<To>) { return cast_as<From, To>(in, out, count); });
  });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(cast_fp32);

std::optional<cast_overflow> cast(const std::byte* in, core::dtype from, std::byte* out, core::dtype to,
                                  uint64_t count) {
  if (from == to) {
    if (count != 0) std::memmove(out, in, count * core::size_of(from));
    return {};
  }
  if (from == core::dtype::f64 || to == core::dtype::f64) return cast_reference(in, from, out, to, count);
  return HWY_DYNAMIC_DISPATCH(cast_fp32)(in, from, out, to, count);
}

std::optional<cast_overflow> cast_reference(const std::byte* in, core::dtype from, std::byte* out, core::dtype to,
                                            uint64_t count) {
  std::optional<cast_overflow> lost;
  with_float_dtype(from, [&]<class From>(std::type_identity<From>) {
    with_float_dtype(to, [&]<class To>(std::type_identity<To>) {
      for (uint64_t i = 0; i < count; ++i) {
        From value;
        std::memcpy(&value, in + i * sizeof(From), sizeof(From));
        To made;
        if constexpr (std::is_same_v<From, To>) {
          made = value;
        } else {
          made = narrow<To>(widen(value));
          if (std::isinf(widen(made)) && !std::isinf(widen(value)) && !lost)
            lost = {i, static_cast<double>(widen(value))};
        }
        std::memcpy(out + i * sizeof(To), &made, sizeof(To));
      }
    });
  });
  return lost;
}

}  // namespace troupe::kernels
#endif
