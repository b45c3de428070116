#include "kernels/sums/norm.hpp"

#include <algorithm>
#include <array>
#include <cassert>

#include "core/math.hpp"
#include "kernels/base/with_dtype.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sums/norm.cpp"
#include <hwy/foreach_target.h>

#include "kernels/base/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

using wide = hn::CappedTag<double, norm_lanes>;
using of_wide = hn::Rebind<float, wide>;

template <class T>
HWY_INLINE hn::Vec<wide> load_wide(const T* p) {
  if constexpr (std::is_same_v<T, double>)
    return hn::LoadU(wide(), p);
  else
    return hn::PromoteTo(wide(), load(of_wide(), p));
}

/// Returns the sum of squares of one block: adds the squares of 16 elements at a time to 16 running sums, which are
/// then added pairwise. All indices of vectors are compile-time constants (V...), so that the compiler keeps them in
/// registers.
template <class T, size_t... V>
HWY_INLINE double block_of(const T* values, uint64_t count, std::index_sequence<V...>) {
  constexpr uint64_t step = hn::MaxLanes(wide());
  hn::Vec<wide> lanes[sizeof...(V)] = {((void)V, hn::Zero(wide()))...};
  const auto add = [&](const T* p) HWY_ATTR {
    ((lanes[V] = hn::Add(lanes[V],
                         [&]() HWY_ATTR {
                           const auto x = load_wide(p + V * step);
                           return hn::Mul(x, x);
                         }())),
     ...);
  };
  uint64_t i = 0;
  for (; i + norm_lanes <= count; i += norm_lanes) add(values + i);
  if (i < count) {  // the last elements are padded with zeros, which do not change the bits of a sum of squares
    std::array<T, norm_lanes> rest{};
    std::copy(values + i, values + count, rest.begin());
    add(rest.data());
  }
  alignas(64) std::array<double, norm_lanes> sums;
  (hn::StoreU(lanes[V], wide(), sums.data() + V * step), ...);
  for (uint64_t half = norm_lanes / 2; half > 0; half /= 2) {
    for (uint64_t l = 0; l < half; ++l) sums[l] += sums[l + half];
  }
  return sums[0];
}

void square_sums(const std::byte* values, core::dtype type, uint64_t count, double* out) {
  with_float_dtype(type, [&]<class T>(std::type_identity<T>) {
    const auto* p = reinterpret_cast<const T*>(values);
    for (uint64_t i = 0; i < count; i += core::partition_grain) {
      *out++ = block_of(p + i, std::min(core::partition_grain, count - i),
                        std::make_index_sequence<norm_lanes / hn::MaxLanes(wide())>());
    }
  });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(square_sums);

double block_square_sum(const std::byte* values, core::dtype type, uint64_t count) {
  assert(count <= core::partition_grain);
  double sum = 0;
  HWY_DYNAMIC_DISPATCH(square_sums)(values, type, count, &sum);
  return sum;
}

void block_square_sums(const std::byte* values, core::dtype type, uint64_t count, std::span<double> out) {
  assert(out.size() == core::div_up(count, core::partition_grain));
  HWY_DYNAMIC_DISPATCH(square_sums)(values, type, count, out.data());
}

double block_square_sum_reference(const std::byte* values, core::dtype type, uint64_t count) {
  assert(count <= core::partition_grain);
  std::array<double, norm_lanes> lanes{};
  with_float_dtype(type, [&]<class T>(std::type_identity<T>) {
    const auto* p = reinterpret_cast<const T*>(values);
    for (uint64_t i = 0; i < count; ++i) {
      const double x = widen(p[i]);
      lanes[i % norm_lanes] += x * x;
    }
  });
  for (uint64_t half = norm_lanes / 2; half > 0; half /= 2) {
    for (uint64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

}  // namespace troupe::kernels
#endif
