// Helpers for launching the CUDA kernels: grids that cover any number of elements, and CUDA errors as results.
#pragma once

#include <algorithm>
#include <string>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/math.hpp"
#include "kernels/cuda/grid.cuh"

namespace troupe::kernels::cuda {

inline constexpr unsigned warp_threads = 32;
inline constexpr unsigned all_lanes = 0xFFFFFFFFU;  ///< mask of all threads of a warp

inline unsigned blocks_for(uint64_t threads) {
  return static_cast<unsigned>(std::clamp<uint64_t>(core::div_up(threads, threads_per_block), 1, max_blocks));
}

__device__ inline uint64_t first_index() { return uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline uint64_t stride() { return uint64_t{gridDim.x} * blockDim.x; }

/// Returns the error of a CUDA call that failed with `status`; `wanted` says what was requested. Kind limit if the
/// device's memory is exhausted, else io.
inline core::error error_of(const char* kernel, const std::string& wanted, cudaError_t status) {
  const std::string place = std::string("CUDA kernel ") + kernel + ": ";
  if (status == cudaErrorMemoryAllocation)
    return {core::error_kind::limit, place + "out of the GPU's memory: wanted " + wanted +
                                         "; `troupe plan FILE --fit` lists settings that need less"};
  return {core::error_kind::io, place + "wanted " + wanted + ", got " + cudaGetErrorString(status)};
}

/// Returns an error if the kernel launch before this call has failed; `kernel` is its name for the message.
inline core::result<void> launched(const char* kernel) {
  const cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) return {};
  return core::fail(error_of(kernel, "a launch", status));
}

/// Returns an error if `type` is fp64, which the CUDA kernels of layers do not support; layers in fp64 are computed on
/// the CPU only.
inline core::result<void> in_fp32(const char* kernel, core::dtype type) {
  if (type != core::dtype::f64) return {};
  return core::fail(core::error_kind::bad_input, std::string("CUDA kernel ") + kernel +
                                                     ": wanted f32, bf16 or f16, got f64; `device: cpu` computes it");
}

}  // namespace troupe::kernels::cuda
