#include "kernels/optimizer/adagrad.hpp"

#include "kernels/optimizer/adagrad_element.hpp"
#include "kernels/optimizer/element_pass.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/adagrad.cpp"
#include <hwy/foreach_target.h>

#include "kernels/optimizer/element_pass-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

void adagrad_fp32(const adagrad_factors<float>& factors, const optimizer_piece<float>& piece) {
  const adagrad_factors<float> f = factors;
  gradient_pass<1>(piece, [=](auto d, auto& p, auto& sum, auto& /*none*/, auto gradient) HWY_ATTR {
    auto g = hn::Mul(gradient, hn::Set(d, f.gradient_scale));
    if (f.l2 != 0) g = hn::Add(g, hn::Mul(hn::Set(d, f.l2), p));
    sum = hn::Add(sum, hn::Mul(g, g));
    const auto step = hn::Div(g, hn::Add(hn::Sqrt(sum), hn::Set(d, f.epsilon)));
    p = hn::Sub(p, hn::Mul(hn::Set(d, f.lr), step));
  });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(adagrad_fp32);

namespace {
template <class State>
void adagrad_by_element(const adagrad_options& options, const optimizer_step& step,
                        const optimizer_piece<State>& piece) {
  const auto f = factors_of<State>(options, step);
  for_each_gradient(piece, [&](uint64_t i, State g) { adagrad_element(f, piece.master[i], piece.moments[0][i], g); });
  store_copy(piece);
}
}  // namespace

void adagrad(const adagrad_options& options, const optimizer_step& step, const optimizer_piece<float>& piece) {
  HWY_DYNAMIC_DISPATCH(adagrad_fp32)(factors_of<float>(options, step), piece);
}

void adagrad_reference(const adagrad_options& options, const optimizer_step& step,
                       const optimizer_piece<float>& piece) {
  adagrad_by_element(options, step, piece);
}

void adagrad(const adagrad_options& options, const optimizer_step& step, const optimizer_piece<double>& piece) {
  adagrad_by_element(options, step, piece);
}

}  // namespace troupe::kernels
#endif
