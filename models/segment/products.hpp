// Matrix products of layers: chooses the library for each product. Attention computes its products itself; a host's
// modules use ATen unchanged.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace troupe::models {

/// Libraries that compute a product. `aten`: the library behind at::mm, MKL for fp32 and oneDNN for 16-bit types.
/// `onednn`: the oneDNN inside LibTorch, for fp32. `widened`: fp32 products of 16-bit factors converted to fp32
/// (`models/segment/widened_products.hpp`).
enum class product_library : uint8_t { aten, onednn, widened };

/// Returns the library for a product of m x k by k x n. Depends on the processor (as processor.hpp detects it),
/// the type and the shape alone, so bits do not depend on the run.
/// fp32: oneDNN on processors with AVX-512 that are not Intel's (MKL uses only AVX2 on those: 93 against 205 GFLOP/s on
/// a Zen 5 core), and not for products too small to pay for a call; otherwise ATen's.
/// 16-bit types: ATen's if the processor has instructions for them, otherwise widened. On a processor without these
/// instructions, LibTorch's own products in 16 bits are slow: 1 to 10 GFLOP/s for fp16 on nearly all processors and for
/// bf16 without AVX-512; with AVX-512, a bf16 product has a third of the speed of the same product in fp32.
product_library products_by(at::ScalarType type, int64_t m, int64_t k, int64_t n);

/// Computes out (m, n) = a (m, k) * b (k, n), plus `bias` (n) if it is defined. `out` is contiguous and overlaps
/// neither factor; a factor may be a transposed view. All have one dtype; 16-bit types are summed in fp32 and rounded
/// once. Calls the function of the device of `out` (models/segment/operations.hpp).
void product_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias = {});

/// The CPU's product_out, by the library that `products_by` returns.
void product_on_cpu(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias);

/// Returns a * b, plus `bias` if it is defined, as a new tensor.
at::Tensor product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias = {});

/// Computes out += a * b, in fp32 or fp64, by the function of the device of `out`.
void add_product(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);

/// The CPU's add_product, by the library that `products_by` returns.
void add_product_on_cpu(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);

}  // namespace troupe::models
