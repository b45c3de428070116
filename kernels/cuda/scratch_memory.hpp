// The allocator of the memory that one call of a CUDA twin needs between its stages (scratch.cuh). Owns the choice:
// CUDA's own pool, unless the program has an allocator that owns the device's free memory.
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

/// Returns the process's allocator, which is set before the first kernel is called; without functions, CUDA's own pool
/// is used.
inline scratch_memory& used_scratch() {
  static scratch_memory used;
  return used;
}

}  // namespace troupe::kernels::cuda
