#include "models/cuda/products.hpp"

#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "kernels/optimizer/newton_schulz.hpp"

namespace troupe::models::cuda {
namespace {

/// Returns a matrix over memory of the device, which the caller keeps alive.
at::Tensor matrix_at(float* data, int64_t rows, int64_t cols) {
  const c10::Device here(at::kCUDA, c10::cuda::current_device());
  return at::from_blob(data, {rows, cols}, {cols, 1}, 0, {}, at::dtype(at::kFloat).device(here), here);
}

}  // namespace

void settle(const cuda_settings& s) {
  // One workspace of one size: cuBLAS then uses the same algorithm, and the same order of sums, at every call.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  at::Context& torch = at::globalContext();
  torch.setAllowBF16ReductionCuBLAS(false);
  torch.setAllowFP16ReductionCuBLAS(false);
  torch.setAllowTF32CuBLAS(s.tf32);
  static bool was_deterministic = false;  // keeps a host's own setting if no session requests determinism
  if (s.deterministic || was_deterministic) torch.setDeterministicAlgorithms(s.deterministic, /*warn_only=*/false);
  if (s.deterministic) torch.setDeterministicFillUninitializedMemory(false);  // would write NaN to all new memory
  was_deterministic = s.deterministic;
}

void product_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  if (bias.defined())
    at::addmm_out(out, bias, a, b);
  else
    at::mm_out(out, a, b);
}

void add_product(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() == out.scalar_type())
    at::addmm_out(out, out, a, b);
  else
    at::addmm_out(out, out, a, b, out.scalar_type());
}

void orthogonalise(std::span<float> matrix, uint64_t rows, uint64_t cols, uint32_t steps, std::span<float> scratch) {
  using namespace kernels::newton_schulz;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto m = static_cast<int64_t>(rows), n = static_cast<int64_t>(cols), small = std::min(m, n);
  const bool tall = m > n;
  const at::Tensor x = matrix_at(matrix.data(), m, n);
  at::Tensor gram = matrix_at(scratch.data(), small, small);
  at::Tensor square = matrix_at(scratch.data() + small * small, small, small);
  at::Tensor product = matrix_at(scratch.data() + 2 * small * small, m, n);
  x.div_(at::linalg_vector_norm(x).clamp_min_(least_norm));
  for (uint32_t step = 0; step < steps; ++step) {
    at::mm_out(gram, tall ? x.t() : x, tall ? x : x.t());
    at::mm_out(square, gram, gram);
    gram.mul_(coefficient_b).add_(square, coefficient_c);
    at::mm_out(product, tall ? x : gram, tall ? gram : x);
    x.mul_(coefficient_a).add_(product);
  }
  if (tall) x.mul_(std::sqrt(static_cast<double>(rows) / static_cast<double>(cols)));
}

}  // namespace troupe::models::cuda
