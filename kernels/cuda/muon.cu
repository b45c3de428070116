#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/optimizer/muon_element.hpp"

namespace troupe::kernels::cuda {
namespace {

template <class Gradient>
__global__ void muon_prepare_kernel(muon_factors<float> factors, float* m, const Gradient* gradient, float* direction,
                                    uint64_t count) {
  for (uint64_t i = first_index(); i < count; i += stride()) {
    direction[i] = muon_direction(factors, m[i], widen(gradient[i]));
  }
}

/// `copy` may be null.
template <class Copy>
__global__ void muon_apply_kernel(muon_factors<float> factors, float* master, const float* orthogonal, Copy* copy,
                                  uint64_t count) {
  for (uint64_t i = first_index(); i < count; i += stride()) {
    const float p = muon_weight(factors, master[i], orthogonal[i]);
    master[i] = p;
    if (copy != nullptr) copy[i] = narrow<Copy>(p);
  }
}

}  // namespace

core::result<void> prepare(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                           float* direction, stream on) {
  if (piece.count == 0) return {};
  const auto factors = factors_of<float>(options, step);
  with_fp32_dtype(piece.gradient_dtype, [&]<class Gradient>(std::type_identity<Gradient>) {
    muon_prepare_kernel<<<blocks_for(piece.count), threads_per_block, 0, on>>>(
        factors, piece.moments[0], reinterpret_cast<const Gradient*>(piece.gradient), direction, piece.count);
  });
  return launched("muon prepare");
}

core::result<void> apply(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                         const float* orthogonal, stream on) {
  if (piece.count == 0) return {};
  const auto factors = factors_of<float>(options, step);
  with_fp32_dtype(piece.copy_dtype, [&]<class Copy>(std::type_identity<Copy>) {
    muon_apply_kernel<<<blocks_for(piece.count), threads_per_block, 0, on>>>(
        factors, piece.master, orthogonal, reinterpret_cast<Copy*>(piece.copy), piece.count);
  });
  return launched("muon apply");
}

}  // namespace troupe::kernels::cuda
