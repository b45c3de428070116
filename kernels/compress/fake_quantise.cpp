// Rounds values to the grids of their groups, one group at a time: computes the group's range or its sums, then rounds
// its elements while they are still in the cache.
#include "kernels/compress/fake_quantise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>
#include <utility>

#include "kernels/base/with_dtype.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/compress/fake_quantise.cpp"
#include <hwy/foreach_target.h>

#include "kernels/base/simd-inl.hpp"

#ifndef TROUPE_KERNELS_FAKE_QUANTISE_CALL
#define TROUPE_KERNELS_FAKE_QUANTISE_CALL
namespace troupe::kernels {
namespace {

/// Number of running sums (lanes) of a group: element i is added to sum i mod 16.
constexpr uint64_t sum_lanes = 16;
/// Number of elements whose rounding noise is computed at a time.
constexpr uint64_t noise_block = 1024;
static_assert(noise_block % random_chunk == 0);

/// Arguments that all variants of the quantisation loop share. Without `ranges`, the range of each group is computed
/// from its values.
struct quantise_call {
  grouped_values x;
  quantiser q;
  const value_range<double>* ranges = nullptr;
  uint64_t num_ranges = 0;
  std::byte* y = nullptr;
  const stochastic_rounding* rounding = nullptr;
  /// Two sums of |x|: of all elements, and of those above the threshold; null: computed from `x`
  const magnitudes* sums = nullptr;

  [[nodiscard]] value_range<double> range_of(uint64_t group) const { return ranges[num_ranges == 1 ? 0 : group]; }
};

double folded(std::array<double, sum_lanes>& lanes) {
  for (uint64_t half = sum_lanes / 2; half > 0; half /= 2)
    for (uint64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  return lanes[0];
}

template <class Real>
Real mean_of(double sum, double count) {
  return static_cast<Real>(sum / count);
}
template <class Real>
Real threshold_of(Real mean) {
  return static_cast<Real>(0.7) * mean;
}

/// Computes the two numbers with which a ternary or binary group is quantised: the threshold, and the magnitude that
/// all values above it get. `sum_above(t)` must return the sum and number of all |x| above t. Returns false if the
/// group must keep its values.
template <class Real, class Sum>
bool signs_of(const quantise_call& call, value_signs<Real>& out, Sum&& sum_above) {
  const auto mean = call.sums != nullptr
                        ? mean_of<Real>(call.sums[0].sum, call.sums[0].count)
                        : mean_of<Real>(sum_above(Real{-1}).sum, static_cast<double>(call.x.group_size));
  out = {0, mean};
  if (call.q.kind == quantiser_kind::ternary) {
    out.threshold = threshold_of(mean);
    const auto above = call.sums != nullptr ? call.sums[1] : sum_above(out.threshold);
    out.size = static_cast<Real>(above.sum / above.count);
  }
  return std::isfinite(out.size) && out.size > 0;
}

/// Calls f(first, count, noise) for consecutive blocks of elements of a group whose first element has index `at` in x;
/// `noise` has the block's rounding noise, or is null if values are rounded to nearest.
template <class F>
void in_blocks(const quantise_call& call, uint64_t at, F&& f) {
  if (call.rounding == nullptr) return f(uint64_t{0}, call.x.group_size, static_cast<const float*>(nullptr));
  std::array<float, noise_block> noise;
  for (uint64_t first = 0; first < call.x.group_size; first += noise_block) {
    const uint64_t count = std::min(noise_block, call.x.group_size - first);
    rounding_noise({noise.data(), count}, call.rounding->key, call.rounding->first_element + at + first);
    f(first, count, static_cast<const float*>(noise.data()));
  }
}

/// Maps the bits of a float to an integer such that greater floats have greater integers; NaN are mapped below or above
/// all numbers, by their sign.
constexpr int32_t ordered(uint32_t bits) {
  return static_cast<int32_t>(bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) & 0x7FFFFFFFU));
}
inline value_range<float> unordered(int32_t least, int32_t largest) {
  const auto value = [](int32_t x) {
    return std::bit_cast<float>(static_cast<uint32_t>(ordered(std::bit_cast<uint32_t>(x))));
  };
  const value_range<float> out{value(least), value(largest)};
  if (std::isnan(out.least) || std::isnan(out.largest))
    return {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::quiet_NaN()};
  return out;
}

}  // namespace
}  // namespace troupe::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

template <class T>
value_range<float> range_in(const T* x, uint64_t count) {
  const hn::RebindToSigned<full> di;
  auto least = hn::Set(di, std::numeric_limits<int32_t>::max());
  auto largest = hn::Set(di, std::numeric_limits<int32_t>::min());
  const uint64_t lanes = hn::Lanes(di);
  uint64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::BitCast(di, load(full(), x + i));
    const auto key = hn::Xor(bits, hn::And(hn::ShiftRight<31>(bits), hn::Set(di, 0x7FFFFFFF)));
    least = hn::Min(least, key);
    largest = hn::Max(largest, key);
  }
  int32_t low = hn::GetLane(hn::MinOfLanes(di, least)), high = hn::GetLane(hn::MaxOfLanes(di, largest));
  for (; i < count; ++i) {
    const int32_t key = ordered(std::bit_cast<uint32_t>(widen(x[i])));
    low = std::min(low, key);
    high = std::max(high, key);
  }
  return unordered(low, high);
}

using wide = hn::CappedTag<double, sum_lanes>;
using of_wide = hn::Rebind<float, wide>;

/// Returns the sum and the number of all |x| that are not at most the threshold. Formulated in this way, a NaN is
/// included.
template <class T, size_t... V>
HWY_INLINE magnitudes sum_above(const T* x, uint64_t count, float threshold, std::index_sequence<V...>) {
  constexpr uint64_t step = hn::MaxLanes(wide());
  const of_wide d;
  hn::Vec<wide> sums[sizeof...(V)] = {((void)V, hn::Zero(wide()))...};
  hn::Vec<wide> counts[sizeof...(V)] = {((void)V, hn::Zero(wide()))...};
  const auto limit = hn::Set(d, threshold), one = hn::Set(d, 1.0F);
  const auto add = [&](const T* p) HWY_ATTR {
    (([&]() HWY_ATTR {
       const auto size = hn::Abs(load(d, p + V * step));
       const auto taken = hn::Not(hn::Le(size, limit));
       sums[V] = hn::Add(sums[V], hn::PromoteTo(wide(), hn::IfThenElseZero(taken, size)));
       counts[V] = hn::Add(counts[V], hn::PromoteTo(wide(), hn::IfThenElseZero(taken, one)));
     }()),
     ...);
  };
  uint64_t i = 0;
  for (; i + sum_lanes <= count; i += sum_lanes) add(x + i);
  const uint64_t padding = i < count ? sum_lanes - (count - i) : 0;
  if (padding > 0) {  // zeros add nothing to the sum; a negative threshold counts them
    std::array<T, sum_lanes> rest{};
    std::copy(x + i, x + count, rest.begin());
    add(rest.data());
  }
  alignas(64) std::array<double, sum_lanes> lanes;
  (hn::StoreU(sums[V], wide(), lanes.data() + V * step), ...);
  magnitudes out{.sum = folded(lanes)};
  (hn::StoreU(counts[V], wide(), lanes.data() + V * step), ...);
  out.count = folded(lanes) - (threshold < 0 ? static_cast<double>(padding) : 0);
  return out;
}

template <class D>
HWY_INLINE floats<D> kept_within(D d, floats<D> v, float lowest, float highest) {
  const auto low = hn::Set(d, lowest), high = hn::Set(d, highest);
  v = hn::IfThenElse(hn::Lt(v, low), low, v);
  return hn::IfThenElse(hn::Gt(v, high), high, v);
}

template <class T>
void to_grid(const T* x, T* y, uint64_t count, const value_grid<float>& g, const float* noise) {
  for_each_vector(count, [&](auto d, uint64_t i) HWY_ATTR {
    const auto zero = hn::Set(d, g.zero), scale = hn::Set(d, g.scale), shift = hn::Set(d, rounding_shift<float>);
    auto v = kept_within(d, hn::Div(hn::Sub(load(d, x + i), zero), scale), g.lowest - 1, g.highest + 1);
    if (noise != nullptr) v = hn::Add(v, hn::LoadU(d, noise + i));
    v = kept_within(d, hn::Sub(hn::Add(v, shift), shift), g.lowest, g.highest);
    store(d, hn::Add(hn::Mul(v, scale), zero), y + i);
  });
}

template <class T>
void to_signs(const T* x, T* y, uint64_t count, const value_signs<float>& s) {
  for_each_vector(count, [&](auto d, uint64_t i) HWY_ATTR {
    const auto v = load(d, x + i), size = hn::Set(d, s.size);
    const auto below = hn::IfThenElseZero(hn::Lt(v, hn::Set(d, -s.threshold)), hn::Neg(size));
    store(d, hn::IfThenElse(hn::Gt(v, hn::Set(d, s.threshold)), size, below), y + i);
  });
}

template <class T>
void quantise_as(const quantise_call& call) {
  const uint64_t size = call.x.group_size;
  for (uint64_t group = 0; group < call.x.groups; ++group) {
    const T* const x = reinterpret_cast<const T*>(call.x.x) + group * size;
    T* const y = reinterpret_cast<T*>(call.y) + group * size;
    bool quantises = false;
    if (call.q.has_grid()) {
      value_range<float> range;
      if (call.ranges == nullptr)
        range = range_in(x, size);
      else
        range = {static_cast<float>(call.range_of(group).least), static_cast<float>(call.range_of(group).largest)};
      const auto grid = grid_of(call.q, range);
      quantises = grid.quantises;
      if (quantises)
        in_blocks(call, group * size, [&](uint64_t first, uint64_t count, const float* noise) {
          to_grid(x + first, y + first, count, grid, noise);
        });
    } else {
      value_signs<float> signs;
      quantises = signs_of(call, signs, [&](float t) {
        return sum_above(x, size, t, std::make_index_sequence<sum_lanes / hn::MaxLanes(wide())>());
      });
      if (quantises) to_signs(x, y, size, signs);
    }
    if (!quantises && x != y) std::copy_n(x, size, y);
  }
}

void quantise(const quantise_call& call) {
  with_fp32_dtype(call.x.type, [&]<class T>(std::type_identity<T>) { quantise_as<T>(call); });
}

void ranges(const grouped_values& x, value_range<double>* out) {
  with_fp32_dtype(x.type, [&]<class T>(std::type_identity<T>) {
    for (uint64_t group = 0; group < x.groups; ++group) {
      const auto range = range_in(reinterpret_cast<const T*>(x.x) + group * x.group_size, x.group_size);
      out[group] = {range.least, range.largest};
    }
  });
}

void sums(const grouped_values& x, float threshold, magnitudes* out) {
  with_fp32_dtype(x.type, [&]<class T>(std::type_identity<T>) {
    *out = sum_above(reinterpret_cast<const T*>(x.x), x.group_size, threshold,
                     std::make_index_sequence<sum_lanes / hn::MaxLanes(wide())>());
  });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(quantise);
HWY_EXPORT(ranges);
HWY_EXPORT(sums);

namespace {

template <class T>
using real = std::remove_cvref_t<decltype(widen(std::declval<T>()))>;

template <class T>
value_range<real<T>> range_reference(const T* x, uint64_t count) {
  if constexpr (std::is_same_v<real<T>, float>) {
    int32_t least = std::numeric_limits<int32_t>::max(), largest = std::numeric_limits<int32_t>::min();
    for (uint64_t i = 0; i < count; ++i) {
      least = std::min(least, ordered(std::bit_cast<uint32_t>(widen(x[i]))));
      largest = std::max(largest, ordered(std::bit_cast<uint32_t>(widen(x[i]))));
    }
    return unordered(least, largest);
  } else {
    value_range<double> out{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
    for (uint64_t i = 0; i < count; ++i) {
      if (std::isnan(x[i])) return {x[i], x[i]};
      out = {std::min(out.least, x[i]), std::max(out.largest, x[i])};
    }
    return out;
  }
}

template <class T>
magnitudes sum_above_reference(const T* x, uint64_t count, real<T> threshold) {
  std::array<double, sum_lanes> sums{}, counts{};
  for (uint64_t i = 0; i < count; ++i) {
    const auto size = std::fabs(widen(x[i]));
    if (size <= threshold) continue;
    sums[i % sum_lanes] += size;
    counts[i % sum_lanes] += 1;
  }
  return {folded(sums), folded(counts)};
}

template <class T>
void quantise_reference(const quantise_call& call) {
  using R = real<T>;
  const uint64_t size = call.x.group_size;
  for (uint64_t group = 0; group < call.x.groups; ++group) {
    const T* const x = reinterpret_cast<const T*>(call.x.x) + group * size;
    T* const y = reinterpret_cast<T*>(call.y) + group * size;
    value_signs<R> signs;
    value_grid<R> grid;
    if (call.q.has_grid()) {
      value_range<R> range;
      if (call.ranges == nullptr)
        range = range_reference(x, size);
      else
        range = {static_cast<R>(call.range_of(group).least), static_cast<R>(call.range_of(group).largest)};
      grid = grid_of(call.q, range);
    }
    if (grid.quantises) {
      in_blocks(call, group * size, [&](uint64_t first, uint64_t count, const float* noise) {
        for (uint64_t i = 0; i < count; ++i)
          y[first + i] = narrow<T>(on_grid<R>(widen(x[first + i]), grid, noise == nullptr ? R{0} : R{noise[i]}));
      });
    } else if (!call.q.has_grid() && signs_of(call, signs, [&](R t) { return sum_above_reference(x, size, t); })) {
      for (uint64_t i = 0; i < size; ++i) y[i] = narrow<T>(as_sign<R>(widen(x[i]), signs));
    } else if (x != y) {
      std::copy_n(x, size, y);
    }
  }
}

void run(const quantise_call& call, bool with_vectors) {
  if (call.x.group_size == 0) return;
  if (with_vectors && call.x.type != core::dtype::f64) return HWY_DYNAMIC_DISPATCH(quantise)(call);
  with_float_dtype(call.x.type, [&]<class T>(std::type_identity<T>) { quantise_reference<T>(call); });
}

}  // namespace

void fake_quantise(const grouped_values& x, const quantiser& q, std::byte* y, const stochastic_rounding* rounding) {
  run({.x = x, .q = q, .y = y, .rounding = rounding}, true);
}

void fake_quantise_reference(const grouped_values& x, const quantiser& q, std::byte* y,
                             const stochastic_rounding* rounding) {
  run({.x = x, .q = q, .y = y, .rounding = rounding}, false);
}

void fake_quantise_within(const grouped_values& x, const quantiser& q, std::span<const value_range<double>> ranges,
                          std::byte* y, const stochastic_rounding* rounding) {
  run({x, q, ranges.data(), ranges.size(), y, rounding}, true);
}

void fake_quantise_within_reference(const grouped_values& x, const quantiser& q,
                                    std::span<const value_range<double>> ranges, std::byte* y,
                                    const stochastic_rounding* rounding) {
  run({x, q, ranges.data(), ranges.size(), y, rounding}, false);
}

magnitudes sum_above(const grouped_values& x, double threshold) {
  magnitudes out;
  if (x.type == core::dtype::f64)
    return sum_above_reference(reinterpret_cast<const double*>(x.x), x.group_size, threshold);
  HWY_DYNAMIC_DISPATCH(sums)(x, static_cast<float>(threshold), &out);
  return out;
}

double ternary_threshold(core::dtype type, const magnitudes& all) {
  return type == core::dtype::f64 ? threshold_of(mean_of<double>(all.sum, all.count))
                                  : double{threshold_of(mean_of<float>(all.sum, all.count))};
}

void fake_quantise_by_sums(const grouped_values& x, const quantiser& q, const magnitudes& all, const magnitudes& above,
                           std::byte* y) {
  const magnitudes both[] = {all, above};
  run({.x = x, .q = q, .y = y, .sums = both}, true);
}

void group_ranges(const grouped_values& x, std::span<value_range<double>> out) {
  if (x.type == core::dtype::f64)
    group_ranges_reference(x, out);
  else
    HWY_DYNAMIC_DISPATCH(ranges)(x, out.data());
}

void group_ranges_reference(const grouped_values& x, std::span<value_range<double>> out) {
  with_float_dtype(x.type, [&]<class T>(std::type_identity<T>) {
    for (uint64_t group = 0; group < x.groups; ++group) {
      const auto range = range_reference(reinterpret_cast<const T*>(x.x) + group * x.group_size, x.group_size);
      out[group] = {range.least, range.largest};
    }
  });
}

}  // namespace troupe::kernels
#endif
