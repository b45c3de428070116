#include "kernels/base/cast.hpp"

#include <cstring>

#include "kernels/base/with_dtype.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/base/cast.cpp"
#include <hwy/foreach_target.h>

#include "kernels/base/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

template <class From, class To>
void cast_as(const std::byte* in, std::byte* out, uint64_t count) {
  const auto* from = reinterpret_cast<const From*>(in);
  auto* to = reinterpret_cast<To*>(out);
  for_each_vector(count, [&](auto d, uint64_t i) HWY_ATTR { store(d, load(d, from + i), to + i); });
}

void cast_fp32(const std::byte* in, core::dtype from, std::byte* out, core::dtype to, uint64_t count) {
  with_fp32_dtype(from, [&]<class From>(std::type_identity<From>) {
    with_fp32_dtype(to, [&]<class To>(std::type_identity<To>) { cast_as<From, To>(in, out, count); });
  });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(cast_fp32);

void cast(const std::byte* in, core::dtype from, std::byte* out, core::dtype to, uint64_t count) {
  if (from == to) {
    if (count != 0) std::memmove(out, in, count * core::size_of(from));
  } else if (from == core::dtype::f64 || to == core::dtype::f64) {
    cast_reference(in, from, out, to, count);
  } else {
    HWY_DYNAMIC_DISPATCH(cast_fp32)(in, from, out, to, count);
  }
}

void cast_reference(const std::byte* in, core::dtype from, std::byte* out, core::dtype to, uint64_t count) {
  with_float_dtype(from, [&]<class From>(std::type_identity<From>) {
    with_float_dtype(to, [&]<class To>(std::type_identity<To>) {
      const auto* source = reinterpret_cast<const From*>(in);
      auto* target = reinterpret_cast<To*>(out);
      for (uint64_t i = 0; i < count; ++i) {
        if constexpr (std::is_same_v<From, To>)
          target[i] = source[i];
        else
          target[i] = narrow<To>(widen(source[i]));
      }
    });
  });
}

}  // namespace troupe::kernels
#endif
