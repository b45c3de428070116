#include "kernels/layers/cross_entropy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/token_order.hpp"
#include "kernels/base/exponential.hpp"
#include "kernels/base/with_dtype.hpp"

// This file is compiled once per SIMD target, each in a namespace of its own. These functions are shared by all
// targets, so they are defined once, before the first target's namespace.
#ifndef TROUPE_KERNELS_CROSS_ENTROPY_ONCE
#define TROUPE_KERNELS_CROSS_ENTROPY_ONCE
namespace troupe::kernels {
namespace {

/// The running state of a log-sum-exp over a row: the largest logit so far, and the sum of e^(logit - largest).
template <class Wide>
struct running_sum {
  Wide largest = -std::numeric_limits<Wide>::infinity();
  Wide sum = 0;

  /// Rescales the sum to the largest logit of the next block, `block_largest`, if that is larger than `largest`;
  /// called before the block is added.
  void make_room(Wide block_largest) {
    if (!(block_largest > largest)) return;
    sum *= exponential(largest - block_largest);
    largest = block_largest;
  }
  /// Returns the number that is subtracted from logits before the exponential: the largest logit; 0 if all logits are
  /// -infinity, whose exponentials are then 0.
  [[nodiscard]] Wide base() const { return largest == -std::numeric_limits<Wide>::infinity() ? Wide{0} : largest; }
  [[nodiscard]] Wide log_sum() const {
    return static_cast<Wide>(static_cast<double>(largest) + std::log(static_cast<double>(sum)));
  }
  /// Writes the row_statistics numbers of a row: largest logit, sum of exponentials relative to it, the target's logit.
  void write(Wide* to, Wide at_target) const {
    to[0] = largest;
    to[1] = sum;
    to[2] = at_target;
  }
};

/// Logarithm of the softmax's sum, and sum among a row's statistics, of a row without a target.
template <class Wide>
inline constexpr Wide no_log_sum = std::numeric_limits<Wide>::infinity();
template <class Wide>
inline constexpr Wide no_sum = -1;

/// Writes the row_statistics numbers of a row without a target.
template <class Wide>
void write_none(Wide* to) {
  to[0] = -std::numeric_limits<Wide>::infinity();
  to[1] = no_sum<Wide>;
  to[2] = 0;
}

bool is_column(int64_t target, uint64_t width) { return target >= 0 && static_cast<uint64_t>(target) < width; }

/// Returns the logit of the row's target token; 0 if another rank has the target's column.
template <class T>
auto target_of(const T* x, uint64_t width, int64_t target) {
  return is_column(target, width) ? widen(x[target]) : decltype(widen(*x)){0};
}

/// Returns the number that a row's loss subtracts with label smoothing: the target's logit, and the sum of all logits,
/// each times its part of the wanted probability.
template <class Wide>
Wide smoothed(const loss_form& form, Wide at_target, Wide sum) {
  return static_cast<Wide>((1 - form.label_smoothing) * static_cast<double>(at_target) +
                           form.share() * static_cast<double>(sum));
}

/// Returns the loss of a row, of which `at_target` is subtracted.
template <class Wide>
double loss_of_row(const loss_form& form, Wide log_sum, Wide at_target) {
  const auto plain = static_cast<double>(log_sum - at_target), wide = static_cast<double>(log_sum);
  return form.z_loss == 0 ? plain : plain + form.z_loss * wide * wide;
}

/// Returns the weight of row `r`: 1 if the rows have none.
double weight_of(const float* weights, uint64_t r) { return weights == nullptr ? 1 : static_cast<double>(weights[r]); }

/// The numbers of the gradient of one row: a logit's derivative is its probability * scale - share, and at the target
/// its probability * scale - at_target.
template <class Wide>
struct row_slope {
  Wide scale, share, at_target;
  row_slope(const loss_form& form, Wide log_sum)
      : scale(form.z_loss == 0 ? Wide{1} : static_cast<Wide>(1 + 2 * form.z_loss * static_cast<double>(log_sum))),
        share(static_cast<Wide>(form.share())),
        at_target(static_cast<Wide>(form.share() + (1 - form.label_smoothing))) {}
};

}  // namespace
}  // namespace troupe::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/layers/cross_entropy.cpp"
#include <hwy/foreach_target.h>

#include "kernels/base/exponential-inl.hpp"
#include "kernels/sums/row_sums-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

/// Returns the largest of `count` elements. A NaN may be ignored here: its exponential makes the row's sum NaN.
template <class T>
float largest_of(const T* x, uint64_t count) {
  const full d;
  const uint64_t lanes = hn::Lanes(d);
  auto most = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto second = most;
  uint64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    most = hn::Max(most, load(d, x + i));
    second = hn::Max(second, load(d, x + i + lanes));
  }
  float found = hn::GetLane(hn::MaxOfLanes(d, hn::Max(most, second)));
  for (; i < count; ++i) found = std::max(found, widen(x[i]));
  return found;
}

template <class T>
running_sum<float> powers_of(const T* x, uint64_t width) {
  running_sum<float> running;
  for (uint64_t first = 0; first < width; first += loss_block) {
    const T* block = x + first;
    const uint64_t count = std::min(loss_block, width - first);
    running.make_room(largest_of(block, count));
    const float base = running.base();
    running.sum += row_sums<1>(count, [=](auto d, uint64_t i) HWY_ATTR {
      return terms_of<decltype(d), 1>{{exponential(d, hn::Sub(load(d, block + i), hn::Set(d, base)))}};
    })[0];
  }
  return running;
}

/// Returns the number that a row's loss subtracts from the logarithm of its sum: this rank's part of it, if it has only
/// some of the columns.
template <class T>
float subtracted_of(const loss_form& form, const T* x, uint64_t width, int64_t target) {
  const float at_target = target_of(x, width, target);
  if (form.label_smoothing == 0) return at_target;
  const float sum =
      row_sums<1>(width, [=](auto d, uint64_t i) HWY_ATTR { return terms_of<decltype(d), 1>{{load(d, x + i)}}; })[0];
  return smoothed(form, at_target, sum);
}

double sum_of_losses(const std::byte* logits, core::dtype type, uint64_t rows, uint64_t width, const int64_t* targets,
                     float* log_sums, const loss_form& form, const float* weights) {
  double sum = 0;
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    for (uint64_t r = 0; r < rows; ++r) {
      const auto* x = reinterpret_cast<const T*>(logits) + r * width;
      if (!core::is_target(targets[r])) {
        log_sums[r] = no_log_sum<float>;
        continue;
      }
      log_sums[r] = powers_of(x, width).log_sum();
      sum += weight_of(weights, r) * loss_of_row(form, log_sums[r], subtracted_of(form, x, width, targets[r]));
    }
  });
  return sum;
}

void statistics_of_rows(const std::byte* logits, core::dtype type, uint64_t rows, uint64_t width, uint64_t stride,
                        const int64_t* targets, float* statistics, const loss_form& form) {
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    for (uint64_t r = 0; r < rows; ++r) {
      const auto* x = reinterpret_cast<const T*>(logits) + r * stride;
      if (core::is_target(targets[r]))
        powers_of(x, width).write(statistics + r * row_statistics, subtracted_of(form, x, width, targets[r]));
      else
        write_none(statistics + r * row_statistics);
    }
  });
}

/// Replaces a row of logits by the gradient of its loss, which is not the cross-entropy alone.
template <class T>
void gradient_of_row(const loss_form& form, T* x, uint64_t width, int64_t target, float log_sum, float factor) {
  const row_slope<float> slope(form, log_sum);
  const bool own = is_column(target, width);
  const T at_target =
      own ? narrow<T>((kernels::exponential(widen(x[target]) - log_sum) * slope.scale - slope.at_target) * factor)
          : T{};
  for_each_vector(width, [=](auto d, uint64_t i) HWY_ATTR {
    const auto p = exponential(d, hn::Sub(load(d, x + i), hn::Set(d, log_sum)));
    const auto derivative = hn::Sub(hn::Mul(p, hn::Set(d, slope.scale)), hn::Set(d, slope.share));
    store(d, hn::Mul(derivative, hn::Set(d, factor)), x + i);
  });
  if (own) x[target] = at_target;
}

void softmax_gradient(std::byte* logits, core::dtype type, uint64_t rows, uint64_t width, uint64_t stride,
                      const int64_t* targets, const float* log_sums, float of_mean, const loss_form& form,
                      const float* weights) {
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    for (uint64_t r = 0; r < rows; ++r) {
      auto* x = reinterpret_cast<T*>(logits) + r * stride;
      if (!core::is_target(targets[r])) {
        std::fill(x, x + stride, T{});
        continue;
      }
      const float factor = weights == nullptr ? of_mean : of_mean * weights[r];
      if (!form.is_plain()) {
        gradient_of_row(form, x, width, targets[r], log_sums[r], factor);
        std::fill(x + width, x + stride, T{});
        continue;
      }
      const float log_sum = log_sums[r];
      const bool own = is_column(targets[r], width);
      const T at_target = own ? narrow<T>((kernels::exponential(widen(x[targets[r]]) - log_sum) - 1.0F) * factor) : T{};
      for_each_vector(width, [=](auto d, uint64_t i) HWY_ATTR {
        const auto p = exponential(d, hn::Sub(load(d, x + i), hn::Set(d, log_sum)));
        store(d, hn::Mul(p, hn::Set(d, factor)), x + i);
      });
      if (own) x[targets[r]] = at_target;
      std::fill(x + width, x + stride, T{});
    }
  });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(sum_of_losses);
HWY_EXPORT(softmax_gradient);
HWY_EXPORT(statistics_of_rows);

double cross_entropy(const std::byte* logits, core::dtype type, uint64_t rows, uint64_t width, const int64_t* targets,
                     float* log_sums, const loss_form& form, const float* weights) {
  return HWY_DYNAMIC_DISPATCH(sum_of_losses)(logits, type, rows, width, targets, log_sums, form, weights);
}

void cross_entropy_backward(std::byte* logits, core::dtype type, uint64_t rows, uint64_t width, uint64_t stride,
                            const int64_t* targets, const float* log_sums, double factor, const loss_form& form,
                            const float* weights) {
  HWY_DYNAMIC_DISPATCH(softmax_gradient)
  (logits, type, rows, width, stride, targets, log_sums, static_cast<float>(factor), form, weights);
}

void cross_entropy_part(const std::byte* logits, core::dtype type, uint64_t rows, uint64_t width, uint64_t stride,
                        const int64_t* targets, float* statistics, const loss_form& form) {
  HWY_DYNAMIC_DISPATCH(statistics_of_rows)(logits, type, rows, width, stride, targets, statistics, form);
}

template <class Wide>
double joined_cross_entropy(const Wide* statistics, uint64_t ranks, uint64_t rank_stride, uint64_t rows, Wide* log_sums,
                            const loss_form& form, const float* weights) {
  double loss = 0;
  for (uint64_t r = 0; r < rows; ++r) {
    running_sum<Wide> whole;
    Wide at_target = 0;
    const auto of = [&](uint64_t rank) { return statistics + rank * rank_stride + r * row_statistics; };
    if (of(0)[1] < 0) {  // a row without a target
      log_sums[r] = no_log_sum<Wide>;
      continue;
    }
    for (uint64_t rank = 0; rank < ranks; ++rank) whole.largest = std::max(whole.largest, of(rank)[0]);
    for (uint64_t rank = 0; rank < ranks; ++rank) {
      whole.sum += of(rank)[1] * exponential(of(rank)[0] - whole.base());
      at_target += of(rank)[2];
    }
    log_sums[r] = whole.log_sum();
    loss += weight_of(weights, r) * loss_of_row(form, log_sums[r], at_target);
  }
  return loss;
}

namespace {

template <class Wide, class T>
running_sum<Wide> powers_reference(const T* x, uint64_t width) {
  const auto at = [x](uint64_t i) { return static_cast<Wide>(widen(x[i])); };
  running_sum<Wide> running;
  for (uint64_t first = 0; first < width; first += loss_block) {
    const uint64_t count = std::min(loss_block, width - first);
    Wide largest = -std::numeric_limits<Wide>::infinity();
    for (uint64_t i = first; i < first + count; ++i) largest = std::max(largest, at(i));
    running.make_room(largest);
    running.sum += row_sum<Wide>(count, [&](uint64_t i) { return exponential(at(first + i) - running.base()); });
  }
  return running;
}

template <class Wide, class T>
Wide subtracted_reference(const loss_form& form, const T* x, uint64_t width, int64_t target) {
  const auto at_target = static_cast<Wide>(target_of(x, width, target));
  if (form.label_smoothing == 0) return at_target;
  return smoothed(form, at_target, row_sum<Wide>(width, [x](uint64_t i) { return static_cast<Wide>(widen(x[i])); }));
}

}  // namespace

template <class Wide>
double cross_entropy_reference(const std::byte* logits, core::dtype type, uint64_t rows, uint64_t width,
                               const int64_t* targets, Wide* log_sums, const loss_form& form, const float* weights) {
  double sum = 0;
  with_float_dtype(type, [&]<class T>(std::type_identity<T>) {
    for (uint64_t r = 0; r < rows; ++r) {
      const auto* x = reinterpret_cast<const T*>(logits) + r * width;
      if (!core::is_target(targets[r])) {
        log_sums[r] = no_log_sum<Wide>;
        continue;
      }
      log_sums[r] = powers_reference<Wide>(x, width).log_sum();
      sum += weight_of(weights, r) *
             loss_of_row(form, log_sums[r], subtracted_reference<Wide>(form, x, width, targets[r]));
    }
  });
  return sum;
}

template <class Wide>
void cross_entropy_part_reference(const std::byte* logits, core::dtype type, uint64_t rows, uint64_t width,
                                  uint64_t stride, const int64_t* targets, Wide* statistics, const loss_form& form) {
  with_float_dtype(type, [&]<class T>(std::type_identity<T>) {
    for (uint64_t r = 0; r < rows; ++r) {
      const auto* x = reinterpret_cast<const T*>(logits) + r * stride;
      if (core::is_target(targets[r]))
        powers_reference<Wide>(x, width).write(statistics + r * row_statistics,
                                               subtracted_reference<Wide>(form, x, width, targets[r]));
      else
        write_none(statistics + r * row_statistics);
    }
  });
}

template <class Wide>
void cross_entropy_backward_reference(std::byte* logits, core::dtype type, uint64_t rows, uint64_t width,
                                      uint64_t stride, const int64_t* targets, const Wide* log_sums, double factor,
                                      const loss_form& form, const float* weights) {
  with_float_dtype(type, [&]<class T>(std::type_identity<T>) {
    for (uint64_t r = 0; r < rows; ++r) {
      auto* x = reinterpret_cast<T*>(logits) + r * stride;
      if (!core::is_target(targets[r])) {
        std::fill(x, x + stride, T{});
        continue;
      }
      const row_slope<Wide> slope(form, log_sums[r]);
      const Wide of_row = static_cast<Wide>(factor) * static_cast<Wide>(weight_of(weights, r));
      for (uint64_t i = 0; i < width; ++i) {
        const Wide p = exponential(static_cast<Wide>(widen(x[i])) - log_sums[r]);
        const Wide wanted = static_cast<int64_t>(i) == targets[r] ? slope.at_target : slope.share;
        x[i] = narrow<T>((p * slope.scale - wanted) * of_row);
      }
      std::fill(x + width, x + stride, T{});
    }
  });
}

#define TROUPE_CROSS_ENTROPY_TWINS(Wide)                                                                            \
  template double cross_entropy_reference(const std::byte*, core::dtype, uint64_t, uint64_t, const int64_t*, Wide*, \
                                          const loss_form&, const float*);                                          \
  template void cross_entropy_part_reference(const std::byte*, core::dtype, uint64_t, uint64_t, uint64_t,           \
                                             const int64_t*, Wide*, const loss_form&);                              \
  template double joined_cross_entropy(const Wide*, uint64_t, uint64_t, uint64_t, Wide*, const loss_form&,          \
                                       const float*);                                                               \
  template void cross_entropy_backward_reference(std::byte*, core::dtype, uint64_t, uint64_t, uint64_t,             \
                                                 const int64_t*, const Wide*, double, const loss_form&, const float*)
TROUPE_CROSS_ENTROPY_TWINS(float);
TROUPE_CROSS_ENTROPY_TWINS(double);

}  // namespace troupe::kernels
#endif
