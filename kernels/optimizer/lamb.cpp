#include "kernels/optimizer/lamb.hpp"

#include <algorithm>
#include <array>
#include <cassert>

#include "core/math.hpp"
#include "kernels/optimizer/element_pass.hpp"
#include "kernels/optimizer/lamb_element.hpp"
#include "kernels/sums/norm.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/lamb.cpp"
#include <hwy/foreach_target.h>

#include "kernels/optimizer/element_pass-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

template <class D>
HWY_INLINE floats<D> lamb_direction_of(D d, const lamb_factors<float>& f, floats<D> p, floats<D> m, floats<D> v) {
  const auto u = hn::Div(m, hn::Add(hn::Sqrt(v), hn::Set(d, f.epsilon)));
  return f.weight_decay != 0 ? hn::Add(u, hn::Mul(hn::Set(d, f.weight_decay), p)) : u;
}

/// Updates the moments of `count` elements, and writes their update directions u to `direction`.
template <class Gradient>
void lamb_directions_as(const lamb_factors<float>& factors, const float* master, float* m, float* v,
                        const Gradient* gradient, float* direction, uint64_t count) {
  const lamb_factors<float> f = factors;
  for_each_vector(count, [=](auto d, uint64_t i) HWY_ATTR {
    const auto g = hn::Mul(load(d, gradient + i), hn::Set(d, f.gradient_scale));
    const auto m1 =
        hn::Add(hn::Mul(hn::Set(d, f.beta1), hn::LoadU(d, m + i)), hn::Mul(hn::Set(d, f.one_minus_beta1), g));
    const auto v1 = hn::Add(hn::Mul(hn::Set(d, f.beta2), hn::LoadU(d, v + i)),
                            hn::Mul(hn::Mul(hn::Set(d, f.one_minus_beta2), g), g));
    hn::StoreU(m1, d, m + i);
    hn::StoreU(v1, d, v + i);
    hn::StoreU(lamb_direction_of(d, f, hn::LoadU(d, master + i), m1, v1), d, direction + i);
  });
}

void lamb_directions(const lamb_factors<float>& f, const optimizer_piece<float>& piece, uint64_t first, uint64_t count,
                     float* direction) {
  with_fp32_dtype(piece.gradient_dtype, [&]<class Gradient>(std::type_identity<Gradient>) {
    lamb_directions_as(f, piece.master + first, piece.moments[0] + first, piece.moments[1] + first,
                       reinterpret_cast<const Gradient*>(piece.gradient) + first, direction, count);
  });
}

void lamb_weights(const lamb_factors<float>& factors, const optimizer_piece<float>& piece) {
  const lamb_factors<float> f = factors;
  const float* const m = piece.moments[0];
  const float* const v = piece.moments[1];
  weight_pass(piece, [=](auto d, uint64_t i, auto p) HWY_ATTR {
    const auto u = lamb_direction_of(d, f, p, hn::LoadU(d, m + i), hn::LoadU(d, v + i));
    return hn::Sub(p, hn::Mul(hn::Set(d, f.step_size), u));
  });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(lamb_directions);
HWY_EXPORT(lamb_weights);

namespace {

using square_sum = double(const std::byte*, core::dtype, uint64_t);

/// Computes the square sums of weights and directions, one block of elements after another, so that a block's
/// directions are still in the first-level cache when their squares are summed.
template <class State, class Directions>
void sums_of_blocks(const optimizer_piece<State>& piece, std::span<double> weight_sums, std::span<double> update_sums,
                    square_sum& sum, Directions&& directions) {
  constexpr auto type = std::is_same_v<State, double> ? core::dtype::f64 : core::dtype::f32;
  const uint64_t blocks = core::div_up(piece.count, core::partition_grain);
  assert(weight_sums.size() == blocks && update_sums.size() == blocks);
  alignas(64) std::array<State, core::partition_grain> direction;
  for (uint64_t b = 0; b < blocks; ++b) {
    const uint64_t first = b * core::partition_grain;
    const uint64_t count = std::min(core::partition_grain, piece.count - first);
    weight_sums[b] = sum(reinterpret_cast<const std::byte*>(piece.master + first), type, count);
    directions(first, count, direction.data());
    update_sums[b] = sum(reinterpret_cast<const std::byte*>(direction.data()), type, count);
  }
}

/// Computes prepare_unchecked() of LAMB in scalar code: all moments and directions first, then the square sums. Used
/// for fp64 states and by tests.
template <class State>
void prepare_by_element(const lamb_options& options, const optimizer_step& step, const optimizer_piece<State>& piece,
                        std::span<double> weight_sums, std::span<double> update_sums) {
  const auto f = factors_of<State>(options, step);
  const auto [m, v] = piece.moments;
  for_each_gradient(piece, [&, m = m, v = v](uint64_t i, State g) { lamb_moments(f, m[i], v[i], g); });
  sums_of_blocks(piece, weight_sums, update_sums, block_square_sum_reference,
                 [&, m = m, v = v](uint64_t first, uint64_t count, State* direction) {
                   for (uint64_t i = first; i < first + count; ++i)
                     direction[i - first] = lamb_direction(f, piece.master[i], m[i], v[i]);
                 });
}

template <class State>
void apply_by_element(const lamb_options& options, const optimizer_step& step, const optimizer_piece<State>& piece,
                      double ratio) {
  const auto f = factors_of<State>(options, step, ratio);
  for (uint64_t i = 0; i < piece.count; ++i)
    piece.master[i] = lamb_weight(f, piece.master[i], piece.moments[0][i], piece.moments[1][i]);
  store_copy(piece);
}

}  // namespace

double trust_ratio(const lamb_options& options, double weight_square_sum, double update_square_sum) {
  if (weight_square_sum == 0 || update_square_sum == 0) return 1;
  return std::clamp(std::sqrt(weight_square_sum) / std::sqrt(update_square_sum), options.min_coeff, options.max_coeff);
}

void prepare_unchecked(const lamb_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                       std::span<double> weight_sums, std::span<double> update_sums) {
  const auto f = factors_of<float>(options, step);
  sums_of_blocks(piece, weight_sums, update_sums, block_square_sum,
                 [&](uint64_t first, uint64_t count, float* direction) {
                   HWY_DYNAMIC_DISPATCH(lamb_directions)(f, piece, first, count, direction);
                 });
}

void apply_unchecked(const lamb_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                     double ratio) {
  HWY_DYNAMIC_DISPATCH(lamb_weights)(factors_of<float>(options, step, ratio), piece);
}

void prepare_reference(const lamb_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                       std::span<double> weight_sums, std::span<double> update_sums) {
  prepare_by_element(options, step, piece, weight_sums, update_sums);
}

void apply_reference(const lamb_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                     double ratio) {
  apply_by_element(options, step, piece, ratio);
}

void prepare_unchecked(const lamb_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                       std::span<double> weight_sums, std::span<double> update_sums) {
  prepare_by_element(options, step, piece, weight_sums, update_sums);
}

void apply_unchecked(const lamb_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                     double ratio) {
  apply_by_element(options, step, piece, ratio);
}

}  // namespace troupe::kernels
#endif
