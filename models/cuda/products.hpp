// Products on CUDA devices, through ATen and so cuBLAS, and how Torch computes there. Internal to the library of CUDA
// devices.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "models/cuda/use.hpp"

namespace troupe::models::cuda {

/// Sums of all products are formed in fp32, in an order that the shape and the device decide; `deterministic` asks for
/// such an order in the backward of attention and in sums by index, too. Called before products, by one thread at a
/// time.
void settle(const cuda_settings& s);

/// The entries of models/segment/operations.hpp.
void product_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias);
void add_product(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);

/// kernels/optimizer/orthogonalise.hpp, on memory of the device that the calling thread uses.
void orthogonalise(std::span<float> matrix, uint64_t rows, uint64_t cols, uint32_t steps, std::span<float> scratch);

}  // namespace troupe::models::cuda
