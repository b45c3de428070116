// The backend of CUDA devices: memory, streams, events and properties, on CUDA's runtime. Owns the backend, and the
// list of functions that the library calls in the program that opened it.
#pragma once

#include <cstdint>

#include "device/backend.hpp"

namespace troupe::device::cuda {

/// Functions of the program that opened the library: the library has its own copy of the code of device/, but uses the
/// program's host memory and the program's streams of threads.
struct program {
  const backend* cpu = nullptr;
  /// Returns the native handle of the calling thread's current stream (stream::current).
  void* (*current_stream)(uint32_t index) = nullptr;
};

/// Sets the program's functions. Called once, before any other function of device/cuda.
void use(const program& p);
const program& used_program();

/// The backend of CUDA devices; a stream's handle is a cudaStream_t. `make_current` does nothing here; code that links
/// Torch replaces it by a function that sets Torch's stream.
extern const backend cuda_backend;

}  // namespace troupe::device::cuda
