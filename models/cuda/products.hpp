// Matrix products on CUDA devices, through ATen and therefore cuBLAS, and Torch's settings there. Internal to the
// library of CUDA devices.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "models/cuda/use.hpp"

namespace troupe::models::cuda {

/// Sets how Torch computes: sums of all products are formed in fp32, in an order that depends on the shape and the
/// device; `deterministic` requires such an order in the backward of attention and in sums by index, too. Called before
/// products, by one thread at a time.
void settle(const cuda_settings& s);

/// The products of the function table in models/segment/operations.hpp.
void product_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias);
void add_product(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);

/// Computes kernels/optimizer/orthogonalise.hpp's iteration on memory of the device that the calling thread uses.
void orthogonalise(std::span<float> matrix, uint64_t rows, uint64_t cols, uint32_t steps, std::span<float> scratch);

}  // namespace troupe::models::cuda
