#include "kernels/optimizer/adamw.hpp"

#include "kernels/optimizer/adamw_element.hpp"
#include "kernels/optimizer/element_pass.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/adamw.cpp"
#include <hwy/foreach_target.h>

#include "kernels/optimizer/element_pass-inl.hpp"

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
template <class State>
void adamw_by_element(const adamw_options& options, const optimizer_step& step, const optimizer_piece<State>& piece) {
  const auto f = factors_of<State>(options, step);
  for_each_gradient(piece, [&](uint64_t i, State g) {
    adamw_element(f, piece.master[i], piece.moments[0][i], piece.moments[1][i], g);
  });
  store_copy(piece);
}
}  // namespace

void adamw(const adamw_options& options, const optimizer_step& step, const optimizer_piece<float>& piece) {
  HWY_DYNAMIC_DISPATCH(adamw_fp32)(factors_of<float>(options, step), piece);
}

void adamw_reference(const adamw_options& options, const optimizer_step& step, const optimizer_piece<float>& piece) {
  adamw_by_element(options, step, piece);
}

void adamw(const adamw_options& options, const optimizer_step& step, const optimizer_piece<double>& piece) {
  adamw_by_element(options, step, piece);
}

}  // namespace troupe::kernels
#endif
