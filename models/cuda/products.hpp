// Matrix products on CUDA devices, through ATen and therefore cuBLAS, and Torch's settings there. Internal to the
// library of CUDA devices.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "models/cuda/use.hpp"

namespace troupe::models::cuda {

/// Sets the environment so that cuBLAS has one workspace of one size: it then uses the same algorithm, and the same
/// order of sums, at every call. Called before Torch first uses cuBLAS.
void choose_workspace();

/// Sets how Torch computes: sums of all products are formed in fp32, in an order that depends on the shape and the
/// device; `deterministic` requires such an order in the backward of attention and in sums by index, too. Called before
/// products, by one thread at a time. Drops faults that no session has read.
void settle(const cuda_settings& s);
/// Restores the settings that Torch had before settle(), and returns the memory that Torch keeps for later.
void restore();
/// Returns the memory that Torch's allocator keeps for later allocations.
void empty_cache();

/// The products of the function table in models/segment/operations.hpp.
void product_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias);
void add_product(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);

/// Computes kernels/optimizer/orthogonalise.hpp's iteration on memory of the device that the calling thread uses.
void orthogonalise(std::span<float> matrix, uint64_t rows, uint64_t cols, uint32_t steps, std::span<float> scratch);

}  // namespace troupe::models::cuda
