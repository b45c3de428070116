#include "models/segment/products.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "core/system/processor.hpp"
#include "models/segment/operations.hpp"
#include "models/segment/torch_values.hpp"
#include "models/segment/widened_products.hpp"

#ifdef TROUPE_MODELS_ONEDNN
// LibTorch exports this function without shipping its header; models/CMakeLists.txt checks that it links.
namespace at::native {
TORCH_API void mkldnn_matmul(const Tensor& a, const Tensor& b, const Tensor& out, float beta, float alpha);
}
#endif

namespace troupe::models {
namespace {

/// Number of multiply-adds of a product below which calling oneDNN costs more time than it saves.
constexpr int64_t onednn_work_min = 1 << 15;

/// Returns the result of LibTorch's function `question`, which tells whether its oneDNN supports a type on this
/// processor (ONEDNN_MAX_CPU_ISA may restrict oneDNN); true if LibTorch lacks the function.
bool torch_says(const char* question) {
  const auto known = c10::Dispatcher::singleton().findSchema({question, ""});
  return !known || known->typed<bool()>().call();
}

bool onednn_takes_bf16() {
  static const bool answer = torch_says("mkldnn::_is_mkldnn_bf16_supported");
  return answer;
}

bool onednn_takes_f16() {
  static const bool answer = torch_says("mkldnn::_is_mkldnn_fp16_supported");
  return answer;
}

bool processor_prefers_onednn() {
#if defined(TROUPE_MODELS_ONEDNN) && defined(__x86_64__)
  // oneDNN's fp32 products are fast only with AVX-512. Its support of bf16 also requires AVX-512, so it is used as the
  // test.
  static const bool answer = core::has_wide_vectors() && !__builtin_cpu_is("intel") && onednn_takes_bf16();
  return answer;
#else
  return false;
#endif
}

#ifdef TROUPE_MODELS_ONEDNN
/// Computes out = beta * out + a * b by the oneDNN inside LibTorch.
void by_onednn(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, float beta) {
  // oneDNN reads OpenMP's number of threads, which ATen sets at a thread's first call of this function. The call has to
  // go to LibTorch: the header's own lazy_init_num_threads() keeps a second flag of the first call in this library, and
  // would undo an earlier at::set_num_threads() of this thread.
  (void)at::get_num_threads();
  at::native::mkldnn_matmul(a, b, out, beta, 1.0F);
}
#endif

}  // namespace

product_library products_by(at::ScalarType type, int64_t m, int64_t k, int64_t n) {
  switch (type) {
    case at::kFloat:
      return processor_prefers_onednn() && m * k * n >= onednn_work_min ? product_library::onednn
                                                                        : product_library::aten;
    case at::kBFloat16:
    case at::kHalf: {
      const bool taken = type == at::kHalf ? onednn_takes_f16() : onednn_takes_bf16();
      return taken && core::multiplies_natively(core_dtype(type)) ? product_library::aten : product_library::widened;
    }
    default:
      return product_library::aten;
  }
}

void product_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  operations_for(out).product_out(out, a, b, bias);
}

void product_on_cpu(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  switch (products_by(out.scalar_type(), a.size(0), a.size(1), b.size(1))) {
    case product_library::widened:
      return widened_product_out(out, a, b, bias);
    case product_library::onednn:
#ifdef TROUPE_MODELS_ONEDNN
      if (bias.defined()) out.copy_(bias.expand_as(out));
      return by_onednn(out, a, b, bias.defined() ? 1.0F : 0.0F);
#endif
    case product_library::aten:
      if (bias.defined()) {
        at::addmm_out(out, bias, a, b);
      } else {
        at::mm_out(out, a, b);
      }
  }
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options().requires_grad(false));
  product_out(out, a, b, bias);
  return out;
}

void add_product(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  operations_for(out).add_product(out, a, b);
}

void add_product_on_cpu(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
#ifdef TROUPE_MODELS_ONEDNN
  if (products_by(out.scalar_type(), a.size(0), a.size(1), b.size(1)) == product_library::onednn)
    return by_onednn(out, a, b, 1.0F);
#endif
  at::addmm_out(out, out, a, b);
}

}  // namespace troupe::models
