// Matrix products of the layers: chooses the library for each. Attention has products of its own; a host's modules use
// ATen unchanged.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace troupe::models {

/// `aten`: what at::mm takes, MKL for fp32 and oneDNN for 16-bit types. `onednn`: the oneDNN inside LibTorch, for fp32.
/// `widened`: fp32 products of factors that were widened (`models/segment/widened_products.hpp`).
enum class product_library : uint8_t { aten, onednn, widened };

/// The library for a product of m x k by k x n. Depends on the processor (as core/processor.hpp sees it), the type and
/// the shape alone, so bits do not depend on the run.
/// fp32: oneDNN on processors with AVX-512 that are not Intel's (MKL keeps to AVX2 there: 93 against 205 GFLOP/s on a
/// Zen 5 core), and not for products too small to pay for a call; otherwise ATen's.
/// 16-bit types: ATen's where the processor has instructions for them, otherwise widened. There LibTorch's own reach 1
/// to 10 GFLOP/s without AVX-512, as fp16's do nearly everywhere, and a third of fp32's for bf16 with AVX-512 alone.
product_library products_by(at::ScalarType type, int64_t m, int64_t k, int64_t n);

/// out (m, n), contiguous and distinct, = a (m, k) * b (k, n), plus `bias` (n) where it is defined. Either factor may
/// be a transposed view. One dtype for all; 16-bit types are summed in fp32 and rounded once. By the device of `out`
/// (models/segment/operations.hpp).
void product_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias = {});

/// The CPU's product_out, by the library that `products_by` names.
void product_on_cpu(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias);

/// The same into a new tensor.
at::Tensor product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias = {});

/// out += a * b, in fp32 or fp64, by the device of `out`.
void add_product(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);

/// The CPU's add_product, by the library that `products_by` names.
void add_product_on_cpu(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);

}  // namespace troupe::models
