#include <cassert>

#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/packs.cuh"
#include "kernels/optimizer/lamb_element.hpp"
#include "kernels/sums/norm.hpp"

namespace troupe::kernels::cuda {
namespace {

constexpr unsigned lanes = norm_lanes;

/// Number of elements that a thread loads before it computes with the first of them.
constexpr int lanes_ahead = 4;

/// Updates the moments and computes the square sums of weights and update directions. Sixteen threads process a block
/// of 1,024 elements, thread l the elements i with i mod 16 = l: the order of additions of block_square_sum() on the
/// CPU.
template <class Gradient>
__global__ void lamb_prepare_kernel(lamb_factors<float> factors, const float* master, float* m, float* v,
                                    const Gradient* gradient, uint64_t count, double* weight_sums, double* update_sums,
                                    uint64_t blocks) {
  const unsigned lane = threadIdx.x % lanes;
  // The number of blocks is rounded up to an even one, so that both halves of a warp take part in every shuffle.
  for (uint64_t b = first_index() / lanes; b / 2 < (blocks + 1) / 2; b += stride() / lanes) {
    const uint64_t first = b * core::partition_grain;
    const uint64_t end = first + core::partition_grain < count ? first + core::partition_grain : count;
    double weights = 0;
    double updates = 0;
    const auto take = [&]<int n>(width<n>, uint64_t i) {
      float p[n], m1[n], v1[n];
      Gradient g[n];
#pragma unroll
      for (int k = 0; k < n; ++k) {
        const uint64_t at = i + k * lanes;
        p[k] = master[at];
        m1[k] = m[at];
        v1[k] = v[at];
        g[k] = gradient[at];
      }
#pragma unroll
      for (int k = 0; k < n; ++k) {
        lamb_moments(factors, m1[k], v1[k], widen(g[k]));
        const double weight = p[k];
        const double u = lamb_direction(factors, p[k], m1[k], v1[k]);
        weights += weight * weight;
        updates += u * u;
        m[i + k * lanes] = m1[k];
        v[i + k * lanes] = v1[k];
      }
    };
    uint64_t i = first + lane;
    for (; i + (lanes_ahead - 1) * lanes < end; i += lanes_ahead * lanes) take(width<lanes_ahead>{}, i);
    for (; i < end; i += lanes) take(width<1>{}, i);
    for (unsigned half = lanes / 2; half > 0; half /= 2) {
      weights += __shfl_down_sync(0xFFFFFFFFU, weights, half, lanes);
      updates += __shfl_down_sync(0xFFFFFFFFU, updates, half, lanes);
    }
    if (lane == 0 && b < blocks) {
      weight_sums[b] = weights;
      update_sums[b] = updates;
    }
  }
}

/// Computes apply_unchecked() of LAMB's update (kernels/optimizer/lamb.hpp): changes the weights after the trust ratio, a factor
/// in `factors`, is known. `copy`, the parameters in another type, may be null.
template <int N, class Copy>
__global__ void lamb_apply_kernel(lamb_factors<float> factors, float* master, const float* m, const float* v,
                                  Copy* copy, uint64_t count) {
  for_each_pack<N>(count, [&]<int n>(width<n>, uint64_t i) {
    auto p = load_pack<n>(master + i);
    const auto m1 = load_pack<n>(m + i), v1 = load_pack<n>(v + i);
#pragma unroll
    for (int k = 0; k < n; ++k) p.of[k] = lamb_weight(factors, p.of[k], m1.of[k], v1.of[k]);
    store_pack(p, master + i);
    if (copy != nullptr) store_pack(narrowed<Copy>(p), copy + i);
  });
}

}  // namespace

core::result<void> prepare(const lamb_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                           std::span<double> weight_sums, std::span<double> update_sums, stream on) {
  const uint64_t blocks = core::div_up(piece.count, core::partition_grain);
  assert(weight_sums.size() == blocks && update_sums.size() == blocks);
  if (piece.count == 0) return {};
  const auto factors = factors_of<float>(options, step);
  with_fp32_dtype(piece.gradient_dtype, [&]<class Gradient>(std::type_identity<Gradient>) {
    lamb_prepare_kernel<<<blocks_for(blocks * lanes), threads_per_block, 0, on>>>(
        factors, piece.master, piece.moments[0], piece.moments[1], reinterpret_cast<const Gradient*>(piece.gradient),
        piece.count, weight_sums.data(), update_sums.data(), blocks);
  });
  return launched("lamb prepare");
}

core::result<void> apply(const lamb_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                         double trust_ratio, stream on) {
  if (piece.count == 0) return {};
  const auto factors = factors_of<float>(options, step, trust_ratio);
  const float* const m = piece.moments[0];
  const float* const v = piece.moments[1];
  with_fp32_dtype(piece.copy_dtype, [&]<class Copy>(std::type_identity<Copy>) {
    auto* copy = reinterpret_cast<Copy*>(piece.copy);
    with_width<4>(allow_packs<4>(piece.master, m, v, copy), piece.count, [&]<int N>(width<N>, unsigned blocks) {
      lamb_apply_kernel<N><<<blocks, threads_per_block, 0, on>>>(factors, piece.master, m, v, copy, piece.count);
    });
  });
  return launched("lamb apply");
}

}  // namespace troupe::kernels::cuda
