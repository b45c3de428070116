#include "models/cuda/products.hpp"

#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "device/cuda/faults.hpp"
#include "kernels/optimizer/newton_schulz.hpp"

namespace at::cuda {
// This function is declared here, because ATen/cuda/CUDAContextLight.h includes headers of libraries that Troupe does
// not use.
void clearCublasWorkspaces();
}  // namespace at::cuda

namespace troupe::models::cuda {
namespace {

/// Returns a (rows, cols) tensor over device memory, which the caller must keep alive.
at::Tensor matrix_at(float* data, int64_t rows, int64_t cols) {
  const c10::Device here(at::kCUDA, c10::cuda::current_device());
  return at::from_blob(data, {rows, cols}, {cols, 1}, 0, {}, at::dtype(at::kFloat).device(here), here);
}

/// LibTorch's settings for CUDA as the host program (the host) had them; settle() changes them and restore()
/// restores them.
struct torch_settings {
  at::CuBLASReductionOption bf16, fp16;
  std::optional<bool> tf32;  ///< nullopt if Torch throws, because the host has set several precisions that disagree
  bool deterministic, warns_only, fills;
};

std::optional<torch_settings>& settings_of_host() {
  static std::optional<torch_settings> kept;
  return kept;
}

std::optional<bool> allows_tf32() {
  try {
    return at::globalContext().allowTF32CuBLAS();
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

constexpr bool allows_reduced(at::CuBLASReductionOption x) {
  return x == at::CuBLASReductionOption::AllowReducedPrecisionWithSplitK;
}
constexpr bool allows_split(at::CuBLASReductionOption x) {
  return x != at::CuBLASReductionOption::DisallowReducedPrecisionDisallowSplitK;
}

}  // namespace

void choose_workspace() { ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0); }

void settle(const cuda_settings& s) {
  // Drops faults that an earlier session did not read; the fault of a lost device stays.
  (void)device::cuda::take_fault();
  at::Context& torch = at::globalContext();
  if (!settings_of_host())
    settings_of_host() = {torch.allowBF16ReductionCuBLAS(),
                          torch.allowFP16ReductionCuBLAS(),
                          allows_tf32(),
                          torch.deterministicAlgorithms(),
                          torch.deterministicAlgorithmsWarnOnly(),
                          torch.deterministicFillUninitializedMemory()};
  torch.setAllowBF16ReductionCuBLAS(false);
  torch.setAllowFP16ReductionCuBLAS(false);
  torch.setAllowTF32CuBLAS(s.tf32);
  if (!s.deterministic) return;  // the host's own setting of determinism is kept
  torch.setDeterministicAlgorithms(true, /*warn_only=*/false);
  // LibTorch would otherwise fill all new memory with NaN in deterministic mode, which costs time.
  torch.setDeterministicFillUninitializedMemory(false);
}

void restore() {
  if (const auto host = std::exchange(settings_of_host(), std::nullopt)) {
    at::Context& torch = at::globalContext();
    torch.setAllowBF16ReductionCuBLAS(allows_reduced(host->bf16), allows_split(host->bf16));
    torch.setAllowFP16ReductionCuBLAS(allows_reduced(host->fp16), allows_split(host->fp16));
    if (host->tf32) torch.setAllowTF32CuBLAS(*host->tf32);
    torch.setDeterministicAlgorithms(host->deterministic, host->warns_only);
    torch.setDeterministicFillUninitializedMemory(host->fills);
  }
  try {
    at::cuda::clearCublasWorkspaces();
  } catch (const c10::Error&) {  // the device is lost; its memory is freed when the process ends
    return;
  }
  empty_cache();
}

void empty_cache() {
  try {
    c10::cuda::CUDACachingAllocator::emptyCache();
  } catch (const c10::Error&) {  // the device is lost; its memory is freed when the process ends
  }
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
