// Searches the scale, or scale and offset, of least squared error for one run of elements that share them: the first
// step of quantising 256-element blocks, and the whole search for 32-element blocks. Each of a grid of first scales is
// improved by a least-squares fit.
#if defined(TROUPE_KERNELS_RUN_SEARCH_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_RUN_SEARCH_INL_HPP
#undef TROUPE_KERNELS_RUN_SEARCH_INL_HPP
#else
#define TROUPE_KERNELS_RUN_SEARCH_INL_HPP
#endif

#include "kernels/compress/super_block_search-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
namespace {

/// Range of the integer codes of a run that is stored without an offset; `least` is negative.
struct level_range {
  float least = 0, most = 0;
};

/// Sets `q` to the best codes within `of` for this scale, and returns their squared error Σ (scale * q - x)², weighted
/// by `by_column`.
template <uint32_t N, class By>
float plain_error(const float* x, By by_column, float scale, level_range of, float* q) {
  const float by = scale == 0 ? 0.0F : 1.0F / scale;
  const float factor = std::isinf(by) ? 0.0F : by;
  for (uint32_t i = 0; i < N; ++i) q[i] = rounded_within(x[i] * factor, of.least, of.most);
  return sum_of<N>([&](uint32_t i) {
    const float e = scale * q[i] - x[i];
    return by_column(i, e * e);
  });
}

/// Returns the scale that has the least weighted squared error of `x` for the given codes q.
template <uint32_t N, class By>
float plain_fit(const float* x, By by_column, const float* q) {
  const float qq = sum_of<N>([&](uint32_t i) { return by_column(i, q[i] * q[i]); });
  return qq > 0 ? sum_of<N>([&](uint32_t i) { return by_column(i, x[i] * q[i]); }) / qq : 0.0F;
}

/// Returns the scale with the least weighted squared error. The search improves each of several starting scales by a
/// least-squares fit. The scale may be negative, so that the largest element can use the code that only the negative
/// side of the range has.
template <uint32_t N, class By>
float best_plain(const float* x, By by_column, level_range of) {
  float largest = x[0];
  for (uint32_t i = 1; i < N; ++i)
    if (std::abs(x[i]) > std::abs(largest)) largest = x[i];
  std::array<float, N> q{}, unused{};
  float best = 0, least_error = infinity;
  for (int k = 0; k < first_scales; ++k) {
    const float steps = of.least - scale_step * static_cast<float>(k - first_scales / 2);
    plain_error<N>(x, by_column, largest / steps, of, q.data());
    const float fit = plain_fit<N>(x, by_column, q.data());
    const float error = plain_error<N>(x, by_column, fit, of, unused.data());
    if (error < least_error) {
      least_error = error;
      best = fit;
    }
  }
  return best;
}

/// Scale and offset of a run of elements: an element with code q has the value scale * q - least; `least` is not
/// negative.
struct affine_scale {
  float scale = 0, least = 0;
};

/// Sets `q` to the best codes from 0 to `top` for this scale and offset, and returns their squared error Σ (scale * q -
/// least - x)², weighted by `by_column`.
template <uint32_t N, class By>
float affine_error(const float* x, By by_column, affine_scale s, float top, float* q) {
  const float by = s.scale > 0 ? 1.0F / s.scale : 0.0F;
  const float factor = std::isinf(by) ? 0.0F : by;
  for (uint32_t i = 0; i < N; ++i) q[i] = rounded_within((x[i] + s.least) * factor, 0, top);
  return sum_of<N>([&](uint32_t i) {
    const float e = s.scale * q[i] - s.least - x[i];
    return by_column(i, e * e);
  });
}

/// Returns the scale and offset that have the least weighted squared error of `x` for the given codes q.
template <uint32_t N, class By>
affine_scale affine_fit(const float* x, By by_column, const float* q) {
  const double count = by_column.template count<N>();
  const double sum_x = sum_of<N>([&](uint32_t i) { return by_column(i, x[i]); });
  const double sum_q = sum_of<N>([&](uint32_t i) { return by_column(i, q[i]); });
  const double sum_qq = sum_of<N>([&](uint32_t i) { return by_column(i, q[i] * q[i]); });
  const double sum_xq = sum_of<N>([&](uint32_t i) { return by_column(i, x[i] * q[i]); });
  const double determinant = count * sum_qq - sum_q * sum_q;
  if (determinant <= 0) {  // all elements have the same code
    if (sum_x > 0 && sum_q > 0) return {static_cast<float>(sum_x / sum_q), 0};
    return {0, static_cast<float>(std::max(-sum_x / count, 0.0))};
  }
  double scale = (count * sum_xq - sum_x * sum_q) / determinant;
  double least = (scale * sum_q - sum_x) / count;
  if (least < 0) {
    least = 0;
    scale = sum_xq / sum_qq;
  }
  return {static_cast<float>(std::max(scale, 0.0)), static_cast<float>(least)};
}

/// Returns the scale and offset of one run of elements. Each of `first_scales` starting scales determines codes, for
/// which scale and offset are fitted once; the fit with the least error is the result.
template <uint32_t N, class By>
affine_scale best_affine(const float* x, By by_column, float top) {
  float low = std::min(x[0], 0.0F), high = x[0];
  for (uint32_t i = 1; i < N; ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
  }
  if (!(high > low)) return {0, -low};
  std::array<float, N> q{}, unused{};
  affine_scale best{0, -low};
  float least_error = infinity;
  for (int k = 0; k < first_scales; ++k) {
    const float levels = top + scale_step * static_cast<float>(k - first_scales / 2);
    affine_error<N>(x, by_column, {(high - low) / levels, -low}, top, q.data());
    const auto fit = affine_fit<N>(x, by_column, q.data());
    const float error = affine_error<N>(x, by_column, fit, top, unused.data());
    if (error < least_error) {
      least_error = error;
      best = fit;
    }
  }
  return best;
}

}  // namespace
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
