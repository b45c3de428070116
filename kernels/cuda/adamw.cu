#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/packs.cuh"
#include "kernels/optimizer/adamw_element.hpp"

namespace troupe::kernels::cuda {
namespace {

/// `copy` may be null.
template <int N, class Gradient, class Copy>
__global__ void adamw_kernel(adamw_factors<float> factors, float* master, float* m, float* v, const Gradient* gradient,
                             Copy* copy, uint64_t count) {
  for_each_pack<N>(count, [&]<int n>(width<n>, uint64_t i) {
    auto p = load_pack<n>(master + i), m1 = load_pack<n>(m + i), v1 = load_pack<n>(v + i);
    const auto g = load_pack<n>(gradient + i);
#pragma unroll
    for (int k = 0; k < n; ++k) adamw_element(factors, p.of[k], m1.of[k], v1.of[k], widen(g.of[k]));
    store_pack(p, master + i);
    store_pack(m1, m + i);
    store_pack(v1, v + i);
    if (copy != nullptr) store_pack(narrowed<Copy>(p), copy + i);
  });
}

}  // namespace

core::result<void> adamw(const adamw_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                         stream on) {
  if (piece.count == 0) return {};
  const auto factors = factors_of<float>(options, step);
  const auto [m, v] = piece.moments;
  with_fp32_dtype(piece.gradient_dtype, [&, m = m, v = v]<class Gradient>(std::type_identity<Gradient>) {
    with_fp32_dtype(piece.copy_dtype, [&]<class Copy>(std::type_identity<Copy>) {
      const auto* gradient = reinterpret_cast<const Gradient*>(piece.gradient);
      auto* copy = reinterpret_cast<Copy*>(piece.copy);
      with_width<4>(
          allow_packs<4>(piece.master, m, v, gradient, copy), piece.count, [&]<int N>(width<N>, unsigned blocks) {
            adamw_kernel<N>
                <<<blocks, threads_per_block, 0, on>>>(factors, piece.master, m, v, gradient, copy, piece.count);
          });
    });
  });
  return launched("adamw");
}

}  // namespace troupe::kernels::cuda
