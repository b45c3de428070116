#include "kernels/adamw.hpp"

#include "kernels/adamw_element.hpp"
#include "kernels/element_pass.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adamw.cpp"
#include <hwy/foreach_target.h>

#include "kernels/element_pass-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

void adamw_fp32(const adamw_factors<float>& factors, const optimizer_piece<float>& piece) {
  const adamw_factors<float> f = factors;
  gradient_pass<2>(piece, [=](auto d, auto& p, auto& m, auto& v, auto gradient) HWY_ATTR {
    auto g = hn::Mul(gradient, hn::Set(d, f.gradient_scale));
    if (f.l2 != 0) g = hn::Add(g, hn::Mul(hn::Set(d, f.l2), p));
    m = hn::Add(hn::Mul(hn::Set(d, f.beta1), m), hn::Mul(hn::Set(d, f.one_minus_beta1), g));
    v = hn::Add(hn::Mul(hn::Set(d, f.beta2), v), hn::Mul(hn::Mul(hn::Set(d, f.one_minus_beta2), g), g));
    const auto denominator =
        hn::Add(hn::Mul(hn::Sqrt(v), hn::Set(d, f.inverse_sqrt_correction2)), hn::Set(d, f.epsilon));
    if (f.decay != 0) p = hn::Sub(p, hn::Mul(hn::Set(d, f.decay), p));
    p = hn::Add(p, hn::Mul(hn::Set(d, f.step_size), hn::Div(m, denominator)));
  });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(adamw_fp32);

namespace {
optimizer_piece<float> piece_of(float* master, float* m, float* v, const std::byte* gradient,
                                core::dtype gradient_dtype, std::byte* copy, core::dtype copy_dtype, uint64_t count) {
  return {.master = master,
          .moments = {m, v},
          .gradient = gradient,
          .gradient_dtype = gradient_dtype,
          .copy = copy,
          .copy_dtype = copy_dtype,
          .count = count};
}
}  // namespace

void adamw(const adamw_options& options, const adamw_step& step, float* master, float* m, float* v,
           const std::byte* gradient, core::dtype gradient_dtype, std::byte* copy, core::dtype copy_dtype,
           uint64_t count) {
  HWY_DYNAMIC_DISPATCH(adamw_fp32)
  (factors_of<float>(options, step), piece_of(master, m, v, gradient, gradient_dtype, copy, copy_dtype, count));
}

void adamw_reference(const adamw_options& options, const adamw_step& step, float* master, float* m, float* v,
                     const std::byte* gradient, core::dtype gradient_dtype, std::byte* copy, core::dtype copy_dtype,
                     uint64_t count) {
  const auto f = factors_of<float>(options, step);
  const auto piece = piece_of(master, m, v, gradient, gradient_dtype, copy, copy_dtype, count);
  for_each_gradient(piece, [&](uint64_t i, float g) { adamw_element(f, master[i], m[i], v[i], g); });
  store_copy(piece);
}

void adamw(const adamw_options& options, const adamw_step& step, double* master, double* m, double* v,
           const double* gradient, uint64_t count) {
  const auto f = factors_of<double>(options, step);
  for (uint64_t i = 0; i < count; ++i) adamw_element(f, master[i], m[i], v[i], gradient[i]);
}

}  // namespace troupe::kernels
#endif
