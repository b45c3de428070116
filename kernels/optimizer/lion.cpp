#include "kernels/optimizer/lion.hpp"

#include "kernels/optimizer/element_pass.hpp"
#include "kernels/optimizer/lion_element.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/lion.cpp"
#include <hwy/foreach_target.h>

#include "kernels/optimizer/element_pass-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

void lion_fp32(const lion_factors<float>& factors, const optimizer_piece<float>& piece) {
  const lion_factors<float> f = factors;
  gradient_pass<1>(piece, [=](auto d, auto& p, auto& m, auto& /*none*/, auto gradient) HWY_ATTR {
    const auto g = hn::Mul(gradient, hn::Set(d, f.gradient_scale));
    const auto c = hn::Add(hn::Mul(hn::Set(d, f.beta1), m), hn::Mul(hn::Set(d, f.one_minus_beta1), g));
    const auto down = hn::IfThenElseZero(hn::Lt(c, hn::Zero(d)), hn::Set(d, -f.lr));
    const auto signed_lr = hn::IfThenElse(hn::Gt(c, hn::Zero(d)), hn::Set(d, f.lr), down);
    p = hn::Sub(hn::Mul(p, hn::Set(d, f.keep)), signed_lr);
    m = hn::Add(hn::Mul(hn::Set(d, f.beta2), m), hn::Mul(hn::Set(d, f.one_minus_beta2), g));
  });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(lion_fp32);

namespace {
template <class State>
void lion_by_element(const lion_options& options, const optimizer_step& step, const optimizer_piece<State>& piece) {
  const auto f = factors_of<State>(options, step);
  for_each_gradient(piece, [&](uint64_t i, State g) { lion_element(f, piece.master[i], piece.moments[0][i], g); });
  store_copy(piece);
}
}  // namespace

void lion(const lion_options& options, const optimizer_step& step, const optimizer_piece<float>& piece) {
  HWY_DYNAMIC_DISPATCH(lion_fp32)(factors_of<float>(options, step), piece);
}

void lion_reference(const lion_options& options, const optimizer_step& step, const optimizer_piece<float>& piece) {
  lion_by_element(options, step, piece);
}

void lion(const lion_options& options, const optimizer_step& step, const optimizer_piece<double>& piece) {
  lion_by_element(options, step, piece);
}

}  // namespace troupe::kernels
#endif
