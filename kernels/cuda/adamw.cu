#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/optimizer/adamw_element.hpp"

namespace troupe::kernels::cuda {
namespace {

/// `copy` may be null.
template <class Gradient, class Copy>
__global__ void adamw_kernel(adamw_factors<float> factors, float* master, float* m, float* v, const Gradient* gradient,
                             Copy* copy, uint64_t count) {
  for (uint64_t i = first_index(); i < count; i += stride()) {
    float p = master[i];
    adamw_element(factors, p, m[i], v[i], widen(gradient[i]));
    master[i] = p;
    if (copy != nullptr) copy[i] = narrow<Copy>(p);
  }
}

}  // namespace

core::result<void> adamw(const adamw_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                         stream on) {
  if (piece.count == 0) return {};
  const auto factors = factors_of<float>(options, step);
  with_fp32_dtype(piece.gradient_dtype, [&]<class Gradient>(std::type_identity<Gradient>) {
    with_fp32_dtype(piece.copy_dtype, [&]<class Copy>(std::type_identity<Copy>) {
      adamw_kernel<<<blocks_for(piece.count), threads_per_block, 0, on>>>(
          factors, piece.master, piece.moments[0], piece.moments[1], reinterpret_cast<const Gradient*>(piece.gradient),
          reinterpret_cast<Copy*>(piece.copy), piece.count);
    });
  });
  return launched("adamw");
}

}  // namespace troupe::kernels::cuda
