// Products on CUDA devices, through ATen and so cuBLAS. Internal to the library of CUDA devices.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace troupe::models::cuda {

/// Sums of all products are formed in fp32 in an order that the shape and the device decide. Called once, before the
/// first product.
void settle_products();

/// The entries of models/segment/operations.hpp.
void product_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias);
void add_product(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);

/// kernels/optimizer/orthogonalise.hpp, on memory of the device that the calling thread uses.
void orthogonalise(std::span<float> matrix, uint64_t rows, uint64_t cols, uint32_t steps, std::span<float> scratch);

}  // namespace troupe::models::cuda
