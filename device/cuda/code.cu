#include "device/cuda/code.hpp"

namespace troupe::device::cuda {
namespace {

/// A kernel without work, compiled for the same GPU architectures as every other kernel: find_code() tests with it
/// whether the library contains code for this GPU.
__global__ void no_work() {}

}  // namespace

cudaError_t find_code() {
  cudaFuncAttributes facts{};
  return cudaFuncGetAttributes(&facts, reinterpret_cast<const void*>(&no_work));
}

}  // namespace troupe::device::cuda
