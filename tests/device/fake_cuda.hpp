// Simulates CUDA's runtime on a machine with CUDA devices: a test sets what is installed and which call fails. Device
// memory is host memory. Owns the backend of device/cuda over it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

#include "device/backend.hpp"

namespace troupe::device::tests {

struct fake_gpu {
  std::string name = "Test GPU";
  uint64_t bytes = uint64_t{8} << 30;
  int major = 9, minor = 0;
  cudaError_t code = cudaSuccess;  ///< result of the query for a kernel
};

struct fake_machine {
  int driver = 13000, runtime = 13050;
  cudaError_t start = cudaSuccess;
  std::vector<fake_gpu> gpus{{}};
  cudaError_t of_device_memory = cudaSuccess, of_pinned_memory = cudaSuccess, of_copies = cudaSuccess,
              of_waits = cudaSuccess, of_streams = cudaSuccess;
  uint64_t free_bytes = uint64_t{1} << 30;
};

/// Returns the simulated machine of this process, which a test changes and restores.
fake_machine& fake();

/// Returns the stream that Torch's operations of the calling thread would be queued on.
void*& torch_stream();

/// Registers the backend, once.
void provide_fake_cuda();

}  // namespace troupe::device::tests
