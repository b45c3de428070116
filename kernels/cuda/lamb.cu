#include <cassert>

#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/optimizer/lamb_element.hpp"
#include "kernels/sums/norm.hpp"

namespace troupe::kernels::cuda {
namespace {

constexpr unsigned lanes = norm_lanes;

/// Sixteen threads to a block of 1,024 elements, one to a lane, as in norm.cu: the same order of the same sums.
template <class Gradient>
__global__ void lamb_prepare_kernel(lamb_factors<float> factors, const float* master, float* m, float* v,
                                    const Gradient* gradient, uint64_t count, double* weight_sums, double* update_sums,
                                    uint64_t blocks) {
  const unsigned lane = threadIdx.x % lanes;
  // The bound is rounded up to whole warps: both halves of a warp take part in every shuffle.
  for (uint64_t b = first_index() / lanes; b / 2 < (blocks + 1) / 2; b += stride() / lanes) {
    const uint64_t first = b * core::partition_grain;
    const uint64_t end = first + core::partition_grain < count ? first + core::partition_grain : count;
    double weights = 0;
    double updates = 0;
    for (uint64_t i = first + lane; i < end; i += lanes) {
      lamb_moments(factors, m[i], v[i], widen(gradient[i]));
      const double p = master[i];
      const double u = lamb_direction(factors, master[i], m[i], v[i]);
      weights += p * p;
      updates += u * u;
    }
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

/// `copy` may be null.
template <class Copy>
__global__ void lamb_apply_kernel(lamb_factors<float> factors, float* master, const float* m, const float* v,
                                  Copy* copy, uint64_t count) {
  for (uint64_t i = first_index(); i < count; i += stride()) {
    const float p = lamb_weight(factors, master[i], m[i], v[i]);
    master[i] = p;
    if (copy != nullptr) copy[i] = narrow<Copy>(p);
  }
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
  with_fp32_dtype(piece.copy_dtype, [&]<class Copy>(std::type_identity<Copy>) {
    lamb_apply_kernel<<<blocks_for(piece.count), threads_per_block, 0, on>>>(
        factors, piece.master, piece.moments[0], piece.moments[1], reinterpret_cast<Copy*>(piece.copy), piece.count);
  });
  return launched("lamb apply");
}

}  // namespace troupe::kernels::cuda
