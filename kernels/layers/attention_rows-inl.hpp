// Converts the elements of one head, which are stored token by token, to fp32 rows or to transposed panels, and back.
// Included once per SIMD target, after hwy/foreach_target.h.
#if defined(TROUPE_KERNELS_ATTENTION_ROWS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_ATTENTION_ROWS_INL_HPP
#undef TROUPE_KERNELS_ATTENTION_ROWS_INL_HPP
#else
#define TROUPE_KERNELS_ATTENTION_ROWS_INL_HPP
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

#include "core/math.hpp"
#include "kernels/base/simd-inl.hpp"
#include "kernels/layers/attention_scratch.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

/// Converts the `width` elements that each of `count` tokens stores at `from` to an fp32 row times `factor`, padded
/// with zeros to a multiple of row_grain elements. `stride`: elements between tokens.
template <class T>
void widen_rows(const T* from, size_t stride, size_t count, size_t width, float factor, float* to) {
  const size_t padded = core::round_up(width, row_grain);
  for (size_t i = 0; i < count; ++i, from += stride, to += padded) {
    for_each_vector(width, [&](auto d, uint64_t j)
                               HWY_ATTR { hn::StoreU(hn::Mul(load(d, from + j), hn::Set(d, factor)), d, to + j); });
    std::fill(to + width, to + padded, 0.0F);
  }
}

/// Transposes the `width` elements of `count` tokens to fp32: to[k][j] = from[j][k]. Rows of `to` are panel_keys
/// elements long.
template <class T>
void turn(const T* from, size_t stride, size_t count, size_t width, float* to) {
  for (size_t j = 0; j < count; ++j)
    for (size_t k = 0; k < width; ++k) to[k * panel_keys + j] = hn::GetLane(load(one_lane(), from + j * stride + k));
}

#if HWY_TARGET != HWY_SCALAR
template <class T>
HWY_INLINE void turn_4_by_4(const T* from, size_t stride, float* to) {
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> pairs;
  const auto r0 = load(d, from), r1 = load(d, from + stride);
  const auto r2 = load(d, from + 2 * stride), r3 = load(d, from + 3 * stride);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + panel_keys);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * panel_keys);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * panel_keys);
}
#endif

/// Number of tokens by which transposing prefetches ahead: the cache lines of different tokens are far apart, so
/// processors do not prefetch them by themselves.
constexpr size_t turn_ahead = 12;

/// Transposes the `width` elements of `count` tokens into panels of panel_keys tokens; the missing tokens of the last
/// panel are zeros.
template <class T>
void turn_rows(const T* from, size_t stride, size_t count, size_t width, float* to) {
  for (size_t first = 0; first < count; first += panel_keys, to += width * panel_keys, from += panel_keys * stride) {
    const size_t keys = std::min<size_t>(panel_keys, count - first);
    if (keys < panel_keys) std::fill_n(to, width * panel_keys, 0.0F);
#if HWY_TARGET == HWY_SCALAR
    turn(from, stride, keys, width, to);
#else
    const size_t whole_keys = keys / 4 * 4, whole_width = width / 4 * 4;
    for (size_t j = 0; j < whole_keys; j += 4) {
      for (size_t ahead = j + turn_ahead; ahead < std::min(j + turn_ahead + 4, count - first); ++ahead)
        for (size_t k = 0; k < width; k += cache_line_bytes / sizeof(T)) hwy::Prefetch(from + ahead * stride + k);
      for (size_t k = 0; k < whole_width; k += 4) turn_4_by_4(from + j * stride + k, stride, to + k * panel_keys + j);
    }
    turn(from + whole_width, stride, whole_keys, width - whole_width, to + whole_width * panel_keys);
    turn(from + whole_keys * stride, stride, keys - whole_keys, width, to + whole_keys);
#endif
  }
}

/// Stores `count` fp32 rows, times `factor` and rounded to T, as the `width` elements of tokens that are `stride`
/// elements apart.
template <class T>
void narrow_rows(const float* from, size_t count, size_t width, float factor, T* to, size_t stride) {
  const size_t padded = core::round_up(width, row_grain);
  for (size_t i = 0; i < count; ++i, from += padded, to += stride)
    for_each_vector(width, [&](auto d, uint64_t j)
                               HWY_ATTR { store(d, hn::Mul(hn::LoadU(d, from + j), hn::Set(d, factor)), to + j); });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
