#include "kernels/optimizer/sgd.hpp"

#include "kernels/optimizer/element_pass.hpp"
#include "kernels/optimizer/sgd_element.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/sgd.cpp"
#include <hwy/foreach_target.h>

#include "kernels/optimizer/element_pass-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

void sgd_fp32(const sgd_factors<float>& factors, const optimizer_piece<float>& piece) {
  const sgd_factors<float> f = factors;
  if (f.momentum == 0) {
    return gradient_pass<0>(piece, [=](auto d, auto& p, auto& /*none*/, auto& /*none*/, auto gradient) HWY_ATTR {
      auto g = hn::Mul(gradient, hn::Set(d, f.gradient_scale));
      if (f.l2 != 0) g = hn::Add(g, hn::Mul(hn::Set(d, f.l2), p));
      p = hn::Sub(p, hn::Mul(hn::Set(d, f.lr), g));
    });
  }
  gradient_pass<1>(piece, [=](auto d, auto& p, auto& m, auto& /*none*/, auto gradient) HWY_ATTR {
    auto g = hn::Mul(gradient, hn::Set(d, f.gradient_scale));
    if (f.l2 != 0) g = hn::Add(g, hn::Mul(hn::Set(d, f.l2), p));
    const auto momentum = hn::Set(d, f.momentum);
    m = f.first ? g : hn::Add(hn::Mul(momentum, m), hn::Mul(hn::Set(d, f.one_minus_dampening), g));
    const auto direction = f.nesterov ? hn::Add(g, hn::Mul(momentum, m)) : m;
    p = hn::Sub(p, hn::Mul(hn::Set(d, f.lr), direction));
  });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(sgd_fp32);

namespace {
template <class State>
void sgd_by_element(const sgd_options& options, const optimizer_step& step, const optimizer_piece<State>& piece) {
  const auto f = factors_of<State>(options, step);
  for_each_gradient(piece, [&](uint64_t i, State g) {
    if (options.momentum == 0)
      sgd_element(f, piece.master[i], g);
    else
      sgd_element(f, piece.master[i], piece.moments[0][i], g);
  });
  store_copy(piece);
}
}  // namespace

void sgd(const sgd_options& options, const optimizer_step& step, const optimizer_piece<float>& piece) {
  HWY_DYNAMIC_DISPATCH(sgd_fp32)(factors_of<float>(options, step), piece);
}

void sgd_reference(const sgd_options& options, const optimizer_step& step, const optimizer_piece<float>& piece) {
  sgd_by_element(options, step, piece);
}

void sgd(const sgd_options& options, const optimizer_step& step, const optimizer_piece<double>& piece) {
  sgd_by_element(options, step, piece);
}

}  // namespace troupe::kernels
#endif
