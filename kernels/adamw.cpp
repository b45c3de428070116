#include "kernels/adamw.hpp"

#include "kernels/adamw_element.hpp"
#include "kernels/with_dtype.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adamw.cpp"
#include <hwy/foreach_target.h>

#include "kernels/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

template <class Gradient, class Copy>
void adamw_as(const adamw_factors<float>& factors, float* HWY_RESTRICT master, float* HWY_RESTRICT m,
              float* HWY_RESTRICT v, const Gradient* gradient, Copy* copy, uint64_t count) {
  const adamw_factors<float> f = factors;
  for_each_vector(count, [=](auto d, uint64_t i) HWY_ATTR {
    auto p = hn::LoadU(d, master + i);
    auto g = hn::Mul(load(d, gradient + i), hn::Set(d, f.gradient_scale));
    if (f.l2 != 0) g = hn::Add(g, hn::Mul(hn::Set(d, f.l2), p));
    const auto m1 =
        hn::Add(hn::Mul(hn::Set(d, f.beta1), hn::LoadU(d, m + i)), hn::Mul(hn::Set(d, f.one_minus_beta1), g));
    const auto v1 = hn::Add(hn::Mul(hn::Set(d, f.beta2), hn::LoadU(d, v + i)),
                            hn::Mul(hn::Mul(hn::Set(d, f.one_minus_beta2), g), g));
    const auto denominator =
        hn::Add(hn::Mul(hn::Sqrt(v1), hn::Set(d, f.inverse_sqrt_correction2)), hn::Set(d, f.epsilon));
    if (f.decay != 0) p = hn::Sub(p, hn::Mul(hn::Set(d, f.decay), p));
    p = hn::Add(p, hn::Mul(hn::Set(d, f.step_size), hn::Div(m1, denominator)));
    hn::StoreU(m1, d, m + i);
    hn::StoreU(v1, d, v + i);
    hn::StoreU(p, d, master + i);
    if constexpr (!std::is_void_v<Copy>) store(d, p, copy + i);
  });
}

void adamw_fp32(const adamw_factors<float>& f, float* master, float* m, float* v, const std::byte* gradient,
                core::dtype gradient_dtype, std::byte* copy, core::dtype copy_dtype, uint64_t count) {
  with_fp32_dtype(gradient_dtype, [&]<class Gradient>(std::type_identity<Gradient>) {
    const auto* g = reinterpret_cast<const Gradient*>(gradient);
    if (copy == nullptr) return adamw_as<Gradient, void>(f, master, m, v, g, nullptr, count);
    with_fp32_dtype(copy_dtype, [&]<class Copy>(std::type_identity<Copy>) {
      adamw_as(f, master, m, v, g, reinterpret_cast<Copy*>(copy), count);
    });
  });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(adamw_fp32);

void adamw(const adamw_options& options, const adamw_step& step, float* master, float* m, float* v,
           const std::byte* gradient, core::dtype gradient_dtype, std::byte* copy, core::dtype copy_dtype,
           uint64_t count) {
  HWY_DYNAMIC_DISPATCH(adamw_fp32)
  (factors_of<float>(options, step), master, m, v, gradient, gradient_dtype, copy, copy_dtype, count);
}

void adamw_reference(const adamw_options& options, const adamw_step& step, float* master, float* m, float* v,
                     const std::byte* gradient, core::dtype gradient_dtype, std::byte* copy, core::dtype copy_dtype,
                     uint64_t count) {
  const auto f = factors_of<float>(options, step);
  with_fp32_dtype(gradient_dtype, [&]<class Gradient>(std::type_identity<Gradient>) {
    const auto* g = reinterpret_cast<const Gradient*>(gradient);
    for (uint64_t i = 0; i < count; ++i) adamw_element(f, master[i], m[i], v[i], widen(g[i]));
  });
  if (copy == nullptr) return;
  with_fp32_dtype(copy_dtype, [&]<class Copy>(std::type_identity<Copy>) {
    for (uint64_t i = 0; i < count; ++i) reinterpret_cast<Copy*>(copy)[i] = narrow<Copy>(master[i]);
  });
}

void adamw(const adamw_options& options, const adamw_step& step, double* master, double* m, double* v,
           const double* gradient, uint64_t count) {
  const auto f = factors_of<double>(options, step);
  for (uint64_t i = 0; i < count; ++i) adamw_element(f, master[i], m[i], v[i], gradient[i]);
}

}  // namespace troupe::kernels
#endif
