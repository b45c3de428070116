#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/packs.cuh"
#include "kernels/optimizer/muon_element.hpp"

namespace troupe::kernels::cuda {
namespace {

template <int N, class Gradient>
__global__ void muon_prepare_kernel(muon_factors<float> factors, float* m, const Gradient* gradient, float* direction,
                                    uint64_t count) {
  for_each_pack<N>(count, [&]<int n>(width<n>, uint64_t i) {
    auto m1 = load_pack<n>(m + i);
    const auto g = load_pack<n>(gradient + i);
    pack<float, n> d;
#pragma unroll
    for (int k = 0; k < n; ++k) d.of[k] = muon_direction(factors, m1.of[k], widen(g.of[k]));
    store_pack(m1, m + i);
    store_pack(d, direction + i);
  });
}

/// Computes apply() of Muon's update (kernels/optimizer/muon.hpp): changes the weights by the orthogonalised
/// directions. `copy`, the parameters in another type, may be null.
template <int N, class Copy>
__global__ void muon_apply_kernel(muon_factors<float> factors, float* master, const float* orthogonal, Copy* copy,
                                  uint64_t count) {
  for_each_pack<N>(count, [&]<int n>(width<n>, uint64_t i) {
    auto p = load_pack<n>(master + i);
    const auto o = load_pack<n>(orthogonal + i);
#pragma unroll
    for (int k = 0; k < n; ++k) p.of[k] = muon_weight(factors, p.of[k], o.of[k]);
    store_pack(p, master + i);
    if (copy != nullptr) store_pack(narrowed<Copy>(p), copy + i);
  });
}

}  // namespace

core::result<void> prepare(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                           float* direction, stream on) {
  if (piece.count == 0) return {};
  const auto factors = factors_of<float>(options, step);
  float* const m = piece.moments[0];
  with_fp32_dtype(piece.gradient_dtype, [&]<class Gradient>(std::type_identity<Gradient>) {
    const auto* gradient = reinterpret_cast<const Gradient*>(piece.gradient);
    with_width<4>(allow_packs<4>(m, gradient, direction), piece.count, [&]<int N>(width<N>, unsigned blocks) {
      muon_prepare_kernel<N><<<blocks, threads_per_block, 0, on>>>(factors, m, gradient, direction, piece.count);
    });
  });
  return launched("muon prepare");
}

core::result<void> apply(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                         const float* orthogonal, stream on) {
  if (piece.count == 0) return {};
  const auto factors = factors_of<float>(options, step);
  with_fp32_dtype(piece.copy_dtype, [&]<class Copy>(std::type_identity<Copy>) {
    auto* copy = reinterpret_cast<Copy*>(piece.copy);
    with_width<4>(allow_packs<4>(piece.master, orthogonal, copy), piece.count, [&]<int N>(width<N>, unsigned blocks) {
      muon_apply_kernel<N><<<blocks, threads_per_block, 0, on>>>(factors, piece.master, orthogonal, copy, piece.count);
    });
  });
  return launched("muon apply");
}

}  // namespace troupe::kernels::cuda
