// Checks that the library has kernels for the device that the calling thread uses, by asking CUDA for one of them.
// Internal.
#pragma once

#include <cuda_runtime_api.h>

namespace troupe::device::cuda {

cudaError_t find_code();

}  // namespace troupe::device::cuda
