// Matrix products on CUDA devices, by ATen and therefore cuBLAS, and the settings that they require of LibTorch. Used
// only inside libtroupe_cuda.so.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "models/cuda/use.hpp"

namespace troupe::models::cuda {

/// Sets an environment variable so that cuBLAS has one workspace of one size, and therefore uses the same algorithm and
/// order of sums at every call. Must be called before Torch first uses cuBLAS.
void choose_workspace();

/// Sets how LibTorch computes on CUDA devices: sums of products are formed in fp32, in an order that depends on the
/// shape and the device alone; with `deterministic`, the backward of attention and sums by index have a fixed order,
/// too. Must be called before products are computed, by one thread at a time. Drops faults that no session has read.
void settle(const cuda_settings& s);
/// Restores the settings that LibTorch had before settle(), and frees the device memory that its allocator caches.
void restore();
/// Frees the device memory that Torch's allocator caches for later allocations.
void empty_cache();

/// Matrix products for the table of models/segment/operations.hpp: out = a b + bias, and out += a b.
void product_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias);
void add_product(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);

/// Computes the Newton-Schulz iteration of kernels/optimizer/orthogonalise.hpp with ATen's products. `matrix` and
/// `scratch` are memory of the calling thread's current device.
void orthogonalise(std::span<float> matrix, uint64_t rows, uint64_t cols, uint32_t steps, std::span<float> scratch);

}  // namespace troupe::models::cuda
