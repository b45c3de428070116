// Checks that the library contains kernels compiled for the calling thread's current device, by asking CUDA for one of
// them. Internal.
#pragma once

#include <cuda_runtime_api.h>

namespace troupe::device::cuda {

cudaError_t find_code();

}  // namespace troupe::device::cuda
