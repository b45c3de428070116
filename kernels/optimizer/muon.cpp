#include "kernels/optimizer/muon.hpp"

#include "kernels/optimizer/element_pass.hpp"
#include "kernels/optimizer/muon_element.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/muon.cpp"
#include <hwy/foreach_target.h>

#include "kernels/optimizer/element_pass-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

template <class Gradient>
void muon_directions_as(const muon_factors<float>& factors, float* momentum, const Gradient* gradient, float* direction,
                        uint64_t count) {
  const muon_factors<float> f = factors;
  for_each_vector(count, [=](auto d, uint64_t i) HWY_ATTR {
    const auto scaled = hn::Mul(load(d, gradient + i), hn::Set(d, f.gradient_scale));
    const auto g = hn::Mul(hn::Set(d, f.one_minus_momentum), scaled);
    const auto m = hn::Add(hn::Mul(hn::Set(d, f.momentum), hn::LoadU(d, momentum + i)), g);
    hn::StoreU(m, d, momentum + i);
    hn::StoreU(f.nesterov ? hn::Add(g, hn::Mul(hn::Set(d, f.momentum), m)) : m, d, direction + i);
  });
}

void muon_directions(const muon_factors<float>& f, const optimizer_piece<float>& piece, float* direction) {
  with_fp32_dtype(piece.gradient_dtype, [&]<class Gradient>(std::type_identity<Gradient>) {
    muon_directions_as(f, piece.moments[0], reinterpret_cast<const Gradient*>(piece.gradient), direction, piece.count);
  });
}

void muon_weights(const muon_factors<float>& factors, const optimizer_piece<float>& piece, const float* orthogonal) {
  const muon_factors<float> f = factors;
  weight_pass(piece, [=](auto d, uint64_t i, auto p) HWY_ATTR {
    return hn::Sub(hn::Mul(p, hn::Set(d, f.keep)), hn::Mul(hn::Set(d, f.lr), hn::LoadU(d, orthogonal + i)));
  });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(muon_directions);
HWY_EXPORT(muon_weights);

namespace {

template <class State>
void prepare_by_element(const muon_options& options, const optimizer_step& step, const optimizer_piece<State>& piece,
                        State* direction) {
  const auto f = factors_of<State>(options, step);
  for_each_gradient(piece, [&](uint64_t i, State g) { direction[i] = muon_direction(f, piece.moments[0][i], g); });
}

template <class State>
void apply_by_element(const muon_options& options, const optimizer_step& step, const optimizer_piece<State>& piece,
                      const State* orthogonal) {
  const auto f = factors_of<State>(options, step);
  for (uint64_t i = 0; i < piece.count; ++i) piece.master[i] = muon_weight(f, piece.master[i], orthogonal[i]);
  store_copy(piece);
}

}  // namespace

void prepare_unchecked(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                       float* direction) {
  HWY_DYNAMIC_DISPATCH(muon_directions)(factors_of<float>(options, step), piece, direction);
}

void apply_unchecked(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                     const float* orthogonal) {
  HWY_DYNAMIC_DISPATCH(muon_weights)(factors_of<float>(options, step), piece, orthogonal);
}

void prepare_reference(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                       float* direction) {
  prepare_by_element(options, step, piece, direction);
}

void apply_reference(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                     const float* orthogonal) {
  apply_by_element(options, step, piece, orthogonal);
}

void prepare_unchecked(const muon_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                       double* direction) {
  prepare_by_element(options, step, piece, direction);
}

void apply_unchecked(const muon_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                     const double* orthogonal) {
  apply_by_element(options, step, piece, orthogonal);
}

}  // namespace troupe::kernels
#endif
