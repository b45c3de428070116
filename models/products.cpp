#include "models/products.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include "models/torch_dtype.hpp"

#ifdef TROUPE_MODELS_ONEDNN
// LibTorch exports this function without shipping its header; models/CMakeLists.txt has tried that it links.
namespace at::native {
TORCH_API void mkldnn_matmul(const Tensor& a, const Tensor& b, const Tensor& out, float beta, float alpha);
}
#endif

namespace troupe::models {
namespace {

/// Multiplications below which the call costs more than a faster product gains.
constexpr int64_t onednn_work_min = 1 << 15;

bool processor_prefers_onednn() {
#if defined(TROUPE_MODELS_ONEDNN) && defined(__x86_64__)
  static const bool answer = __builtin_cpu_supports("avx512f") && !__builtin_cpu_is("intel");
  return answer;
#else
  return false;
#endif
}

#ifdef TROUPE_MODELS_ONEDNN
void by_onednn(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  at::internal::lazy_init_num_threads();  // oneDNN asks OpenMP, whose number of threads ATen sets in each thread
  if (bias.defined()) out.copy_(bias.expand_as(out));
  at::native::mkldnn_matmul(a, b, out, bias.defined() ? 1.0F : 0.0F, 1.0F);
}
#endif

}  // namespace

product_library fp32_products_by(int64_t m, int64_t k, int64_t n) {
  return processor_prefers_onednn() && m * k * n >= onednn_work_min ? product_library::onednn : product_library::aten;
}

void product_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
#ifdef TROUPE_MODELS_ONEDNN
  if (out.scalar_type() == at::kFloat && fp32_products_by(a.size(0), a.size(1), b.size(1)) == product_library::onednn)
    return by_onednn(out, a, b, bias);
#endif
  if (bias.defined()) {
    at::addmm_out(out, bias, a, b);
  } else {
    at::mm_out(out, a, b);
  }
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options().requires_grad(false));
  product_out(out, a, b, bias);
  return out;
}

void prepare_products(core::dtype stored) {
  constexpr int64_t side = 64;  // large enough for oneDNN
  const at::ScalarType type = torch_dtype(stored);
  const at::NoGradGuard no_grad;
  const at::Tensor a = at::ones({side, side}, type), bias = at::ones({side}, type);
  for (const auto& left : {a, a.t()})
    for (const auto& right : {a, a.t()}) (void)product(left, right);
  (void)product(a, a.t(), bias);
}

}  // namespace troupe::models
