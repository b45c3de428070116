#include "kernels/optimizer/average.hpp"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/average.cpp"
#include <hwy/foreach_target.h>

#include "kernels/base/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

void average_fp32(float* average, const float* weights, uint64_t count, float rate) {
  for_each_vector(count, [=](auto d, uint64_t i) HWY_ATTR {
    const auto a = hn::LoadU(d, average + i);
    const auto change = hn::Mul(hn::Set(d, rate), hn::Sub(hn::LoadU(d, weights + i), a));
    hn::StoreU(hn::Add(a, change), d, average + i);
  });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(average_fp32);

namespace {
template <class T>
void average_by_element(T* average, const T* weights, uint64_t count, double rate) {
  if (rate == 1) {
    std::copy_n(weights, count, average);
    return;
  }
  const auto part = static_cast<T>(rate);
  for (uint64_t i = 0; i < count; ++i) average[i] = average[i] + part * (weights[i] - average[i]);
}
}  // namespace

std::optional<double> average_rate(const core::average_options& options, uint64_t update) {
  if (update <= options.start) return 1;
  if ((update - options.start) % options.every != 0) return std::nullopt;
  const auto n = static_cast<double>((update - options.start) / options.every);
  const double warm = (1 + n) / (10 + n);
  return 1 - (options.warmup ? std::min(options.decay, warm) : options.decay);
}

void add_to_average(float* average, const float* weights, uint64_t count, double rate) {
  if (rate == 1) {
    std::copy_n(weights, count, average);
    return;
  }
  HWY_DYNAMIC_DISPATCH(average_fp32)(average, weights, count, static_cast<float>(rate));
}

void add_to_average(double* average, const double* weights, uint64_t count, double rate) {
  average_by_element(average, weights, count, rate);
}

void add_to_average_reference(float* average, const float* weights, uint64_t count, double rate) {
  average_by_element(average, weights, count, rate);
}

}  // namespace troupe::kernels
#endif
