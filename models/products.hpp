// Matrix products of the layers: which of LibTorch's two libraries does one, and nothing else. Attention has products
// of its own; modules that a host brings use ATen as they are.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/dtype.hpp"

namespace troupe::models {

/// `aten`: what at::mm takes, MKL for fp32. `onednn`: the oneDNN inside LibTorch.
enum class product_library : uint8_t { aten, onednn };

/// What an fp32 product of m x k by k x n runs on: oneDNN on processors with AVX-512 that are not Intel's (MKL keeps to
/// AVX2 there: 93 against 205 GFLOP/s on a Zen 5 core), and not for products too small to pay for a call. Depends on
/// the processor and the shape alone, so bits do not depend on the run. Other types are ATen's, which asks oneDNN
/// itself.
product_library fp32_products_by(int64_t m, int64_t k, int64_t n);

/// out (m, n), contiguous and distinct, = a (m, k) * b (k, n), plus `bias` (n) where it is defined. Either factor may
/// be a transposed view. One dtype for all.
void product_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias = {});

/// The same into a new tensor.
at::Tensor product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias = {});

/// Does one small product of every layout. Where products run on oneDNN it writes its code at the first one, which
/// takes some forty milliseconds: this lets another thread do it while a run opens. Changes no result.
void prepare_products(core::dtype type);

}  // namespace troupe::models
