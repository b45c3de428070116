// The allocator of the temporary device memory of CUDA kernel functions (scratch.cuh): CUDA's own pool, unless the
// program registers another allocator. A program with LibTorch registers LibTorch's, which may own all memory that the
// device has left.
#pragma once

#include <cstddef>

#include "core/error.hpp"

struct CUstream_st;

namespace troupe::kernels::cuda {

struct scratch_memory {
  /// Allocates memory for work of the stream `on`. Errors: limit, if the device has no such memory.
  core::result<void*> (*take)(size_t bytes, CUstream_st* on) = nullptr;
  /// Frees memory in the order of the stream that it was allocated for.
  void (*give)(void* memory, CUstream_st* on) = nullptr;
};

/// Returns the process's allocator, to be set before the first kernel is called; as long as its functions are null,
/// CUDA's own pool is used.
inline scratch_memory& used_scratch() {
  static scratch_memory used;
  return used;
}

}  // namespace troupe::kernels::cuda
