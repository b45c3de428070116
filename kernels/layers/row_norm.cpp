#include "kernels/layers/row_norm.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "kernels/base/with_dtype.hpp"

// This file is compiled once per SIMD target, each in a namespace of its own. These functions are shared by all
// targets, so they are defined once, before the first target's namespace.
#ifndef TROUPE_KERNELS_ROW_NORM_ONCE
#define TROUPE_KERNELS_ROW_NORM_ONCE
namespace troupe::kernels {
namespace {

/// Returns a row's rstd = 1 / sqrt(sum_of_squares / width + epsilon), which backward needs; scalar and SIMD code both
/// call this function, so its bits are the same.
template <class Wide>
Wide reciprocal_deviation(Wide sum_of_squares, uint64_t width, double epsilon) {
  return Wide{1} / std::sqrt(sum_of_squares / static_cast<Wide>(width) + static_cast<Wide>(epsilon));
}

/// Sets totals[c], for `columns` columns, to sums over rows: `row(r, sums)` adds the terms of row r to running sums,
/// which are added to the totals after each `norm_row_grain` rows.
template <class Wide, class F>
void sum_rows(uint64_t rows, uint64_t columns, Wide* totals, F&& row) {
  std::vector<Wide> run(columns);
  std::fill_n(totals, columns, Wide{0});
  for (uint64_t first = 0; first < rows; first += norm_row_grain) {
    std::fill(run.begin(), run.end(), Wide{0});
    for (uint64_t r = first; r < std::min(rows, first + norm_row_grain); ++r) row(r, run.data());
    for (uint64_t c = 0; c < columns; ++c) totals[c] += run[c];
  }
}

}  // namespace
}  // namespace troupe::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/layers/row_norm.cpp"
#include <hwy/foreach_target.h>

#include "kernels/sums/row_sums-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

/// The SIMD code of layer norm (`Centred`) and of RMS norm, which is computed as layer norm with a mean of 0 and no
/// bias.
template <bool Centred>
struct norm {
  template <class D>
  static HWY_INLINE floats<D> centred(D d, floats<D> x, float mean) {
    if constexpr (Centred) return hn::Sub(x, hn::Set(d, mean));
    return x;
  }

  /// Returns the factors of a vector of columns: their weights plus `shift`.
  template <class D, class T>
  static HWY_INLINE floats<D> factors(D d, const T* w, float shift) {
    const auto v = load(d, w);
    if (shift == 0) return v;
    return hn::Add(v, hn::Set(d, shift));
  }

  template <class T>
  static void forward(const norm_input& in, const std::byte* bias, double epsilon, std::byte* y, float* means,
                      float* rstds) {
    const uint64_t width = in.width;
    const float shift = in.shift;
    const auto* w = reinterpret_cast<const T*>(in.weight);
    const auto* b = reinterpret_cast<const T*>(bias);
    for (uint64_t r = 0; r < in.rows; ++r) {
      const auto* x = reinterpret_cast<const T*>(in.x) + r * width;
      auto* out = reinterpret_cast<T*>(y) + r * width;
      float mean = 0;
      if constexpr (Centred) {
        mean = row_sums<1>(width,
                           [=](auto d, uint64_t i) HWY_ATTR { return terms_of<decltype(d), 1>{{load(d, x + i)}}; })[0] /
               static_cast<float>(width);
        means[r] = mean;
      }
      const float squares = row_sums<1>(width, [=](auto d, uint64_t i) HWY_ATTR {
        const auto v = centred(d, load(d, x + i), mean);
        return terms_of<decltype(d), 1>{{hn::Mul(v, v)}};
      })[0];
      const float rstd = reciprocal_deviation(squares, width, epsilon);
      rstds[r] = rstd;
      for_each_vector(width, [=](auto d, uint64_t i) HWY_ATTR {
        const auto normed = hn::Mul(centred(d, load(d, x + i), mean), hn::Set(d, rstd));
        auto v = hn::Mul(normed, factors(d, w + i, shift));
        if constexpr (Centred) v = hn::Add(v, load(d, b + i));
        store(d, v, out + i);
      });
    }
  }

  template <class T>
  static void backward(const norm_input& in, const norm_gradient& gradient, const float* means, const float* rstds,
                       std::byte* dx, float* sums) {
    const uint64_t width = in.width;
    const auto* w = reinterpret_cast<const T*>(in.weight);
    const float share = 1.0F / static_cast<float>(width), shift = in.shift;
    sum_rows(in.rows, Centred ? 2 * width : width, sums, [=](uint64_t r, float* run) HWY_ATTR {
      const auto* x = reinterpret_cast<const T*>(in.x) + r * width;
      const auto* dy = reinterpret_cast<const T*>(gradient.dy) + r * width;
      const auto* past = gradient.past == nullptr ? nullptr : reinterpret_cast<const T*>(gradient.past) + r * width;
      auto* out = reinterpret_cast<T*>(dx) + r * width;
      const float mean = Centred ? means[r] : 0.0F, rstd = rstds[r];
      // Computes the sums over the row of h and of h * normed, where h = dy * factor and normed = (x - mean) * rstd.
      const auto found = row_sums<2>(width, [=](auto d, uint64_t i) HWY_ATTR {
        const auto normed = hn::Mul(centred(d, load(d, x + i), mean), hn::Set(d, rstd));
        const auto g = load(d, dy + i);
        hn::StoreU(hn::Add(hn::LoadU(d, run + i), hn::Mul(g, normed)), d, run + i);
        if constexpr (Centred) hn::StoreU(hn::Add(hn::LoadU(d, run + width + i), g), d, run + width + i);
        const auto h = hn::Mul(g, factors(d, w + i, shift));
        return terms_of<decltype(d), 2>{{h, hn::Mul(h, normed)}};
      });
      const float level = found[0] * share, slope = found[1] * share;
      for_each_vector(width, [=](auto d, uint64_t i) HWY_ATTR {
        const auto normed = hn::Mul(centred(d, load(d, x + i), mean), hn::Set(d, rstd));
        auto v = hn::Sub(hn::Mul(load(d, dy + i), factors(d, w + i, shift)), hn::Mul(normed, hn::Set(d, slope)));
        if constexpr (Centred) v = hn::Sub(v, hn::Set(d, level));
        v = hn::Mul(v, hn::Set(d, rstd));
        if (past != nullptr) v = hn::Add(v, load(d, past + i));
        store(d, v, out + i);
      });
    });
  }
};

void centred_forward(const norm_input& in, const std::byte* bias, double epsilon, std::byte* y, float* mean,
                     float* rstd) {
  with_fp32_dtype(in.type,
                  [&]<class T>(std::type_identity<T>) { norm<true>::forward<T>(in, bias, epsilon, y, mean, rstd); });
}
void centred_backward(const norm_input& in, const norm_gradient& gradient, const float* mean, const float* rstd,
                      std::byte* dx, float* sums) {
  with_fp32_dtype(in.type,
                  [&]<class T>(std::type_identity<T>) { norm<true>::backward<T>(in, gradient, mean, rstd, dx, sums); });
}
void plain_forward(const norm_input& in, double epsilon, std::byte* y, float* rstd) {
  with_fp32_dtype(in.type, [&]<class T>(std::type_identity<T>) {
    norm<false>::forward<T>(in, nullptr, epsilon, y, nullptr, rstd);
  });
}
void plain_backward(const norm_input& in, const norm_gradient& gradient, const float* rstd, std::byte* dx,
                    float* sums) {
  with_fp32_dtype(in.type, [&]<class T>(std::type_identity<T>) {
    norm<false>::backward<T>(in, gradient, nullptr, rstd, dx, sums);
  });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(centred_forward);
HWY_EXPORT(centred_backward);
HWY_EXPORT(plain_forward);
HWY_EXPORT(plain_backward);

void layer_norm(const norm_input& in, const std::byte* bias, double epsilon, std::byte* y, float* mean, float* rstd) {
  HWY_DYNAMIC_DISPATCH(centred_forward)(in, bias, epsilon, y, mean, rstd);
}

void layer_norm_backward(const norm_input& in, const norm_gradient& gradient, const float* mean, const float* rstd,
                         std::byte* dx, float* dweight, float* dbias) {
  std::vector<float> sums(2 * in.width);
  HWY_DYNAMIC_DISPATCH(centred_backward)(in, gradient, mean, rstd, dx, sums.data());
  std::copy_n(sums.data(), in.width, dweight);
  std::copy_n(sums.data() + in.width, in.width, dbias);
}

void rms_norm(const norm_input& in, double epsilon, std::byte* y, float* rstd) {
  HWY_DYNAMIC_DISPATCH(plain_forward)(in, epsilon, y, rstd);
}

void rms_norm_backward(const norm_input& in, const norm_gradient& gradient, const float* rstd, std::byte* dx,
                       float* dweight) {
  HWY_DYNAMIC_DISPATCH(plain_backward)(in, gradient, rstd, dx, dweight);
}

namespace {

template <class Wide, class F>
void with_stored(core::dtype type, F&& f) {
  if constexpr (std::is_same_v<Wide, double>) {
    assert(type == core::dtype::f64);
    f(std::type_identity<double>{});
  } else {
    with_fp32_dtype(type, f);
  }
}

/// Returns the factor of a column with the weight `w`.
template <class Wide, class T>
Wide factor_of(const norm_input& in, T w) {
  const Wide v = widen(w);
  return in.shift == 0 ? v : v + static_cast<Wide>(in.shift);
}

template <bool Centred, class Wide>
void forward_by_element(const norm_input& in, const std::byte* bias, double epsilon, std::byte* y, Wide* means,
                        Wide* rstds) {
  with_stored<Wide>(in.type, [&]<class T>(std::type_identity<T>) {
    const auto* w = reinterpret_cast<const T*>(in.weight);
    const auto* b = reinterpret_cast<const T*>(bias);
    for (uint64_t r = 0; r < in.rows; ++r) {
      const auto* x = reinterpret_cast<const T*>(in.x) + r * in.width;
      auto* out = reinterpret_cast<T*>(y) + r * in.width;
      Wide mean = 0;
      if (Centred) {
        mean = row_sum<Wide>(in.width, [&](uint64_t i) { return widen(x[i]); }) / static_cast<Wide>(in.width);
        means[r] = mean;
      }
      const Wide squares =
          row_sum<Wide>(in.width, [&](uint64_t i) { return (widen(x[i]) - mean) * (widen(x[i]) - mean); });
      rstds[r] = reciprocal_deviation(squares, in.width, epsilon);
      for (uint64_t i = 0; i < in.width; ++i) {
        const Wide scaled = (widen(x[i]) - mean) * rstds[r] * factor_of<Wide>(in, w[i]);
        out[i] = narrow<T>(Centred ? scaled + widen(b[i]) : scaled);
      }
    }
  });
}

template <bool Centred, class Wide>
void backward_by_element(const norm_input& in, const norm_gradient& gradient, const Wide* means, const Wide* rstds,
                         std::byte* dx, Wide* sums) {
  with_stored<Wide>(in.type, [&]<class T>(std::type_identity<T>) {
    const auto* w = reinterpret_cast<const T*>(in.weight);
    const Wide share = Wide{1} / static_cast<Wide>(in.width);
    sum_rows(in.rows, Centred ? 2 * in.width : in.width, sums, [&](uint64_t r, Wide* run) {
      const auto* x = reinterpret_cast<const T*>(in.x) + r * in.width;
      const auto* dy = reinterpret_cast<const T*>(gradient.dy) + r * in.width;
      const auto* past = reinterpret_cast<const T*>(gradient.past);
      auto* out = reinterpret_cast<T*>(dx) + r * in.width;
      const Wide mean = Centred ? means[r] : Wide{0};
      const auto normed = [&](uint64_t i) { return (widen(x[i]) - mean) * rstds[r]; };
      const auto h = [&](uint64_t i) { return widen(dy[i]) * factor_of<Wide>(in, w[i]); };
      for (uint64_t i = 0; i < in.width; ++i) {
        run[i] += widen(dy[i]) * normed(i);
        if (Centred) run[in.width + i] += widen(dy[i]);
      }
      const Wide level = row_sum<Wide>(in.width, h) * share;
      const Wide slope = row_sum<Wide>(in.width, [&](uint64_t i) { return h(i) * normed(i); }) * share;
      for (uint64_t i = 0; i < in.width; ++i) {
        const Wide tilted = h(i) - normed(i) * slope;
        const Wide v = (Centred ? tilted - level : tilted) * rstds[r];
        out[i] = narrow<T>(past == nullptr ? v : v + widen(past[r * in.width + i]));
      }
    });
  });
}

}  // namespace

template <class Wide>
void layer_norm_reference(const norm_input& in, const std::byte* bias, double epsilon, std::byte* y, Wide* mean,
                          Wide* rstd) {
  forward_by_element<true>(in, bias, epsilon, y, mean, rstd);
}
template <class Wide>
void layer_norm_backward_reference(const norm_input& in, const norm_gradient& gradient, const Wide* mean,
                                   const Wide* rstd, std::byte* dx, Wide* dweight, Wide* dbias) {
  std::vector<Wide> sums(2 * in.width);
  backward_by_element<true>(in, gradient, mean, rstd, dx, sums.data());
  std::copy_n(sums.data(), in.width, dweight);
  std::copy_n(sums.data() + in.width, in.width, dbias);
}
template <class Wide>
void rms_norm_reference(const norm_input& in, double epsilon, std::byte* y, Wide* rstd) {
  forward_by_element<false, Wide>(in, nullptr, epsilon, y, nullptr, rstd);
}
template <class Wide>
void rms_norm_backward_reference(const norm_input& in, const norm_gradient& gradient, const Wide* rstd, std::byte* dx,
                                 Wide* dweight) {
  backward_by_element<false, Wide>(in, gradient, nullptr, rstd, dx, dweight);
}

#define TROUPE_NORM_TWINS(Wide)                                                                                  \
  template void layer_norm_reference(const norm_input&, const std::byte*, double, std::byte*, Wide*, Wide*);     \
  template void layer_norm_backward_reference(const norm_input&, const norm_gradient&, const Wide*, const Wide*, \
                                              std::byte*, Wide*, Wide*);                                         \
  template void rms_norm_reference(const norm_input&, double, std::byte*, Wide*);                                \
  template void rms_norm_backward_reference(const norm_input&, const norm_gradient&, const Wide*, std::byte*, Wide*)
TROUPE_NORM_TWINS(float);
TROUPE_NORM_TWINS(double);

}  // namespace troupe::kernels
#endif
