// CUDA devices: memory, streams, events and facts by CUDA's runtime. Owns the backend, and the list of what the program
// that has opened the library lends to it.
#pragma once

#include <cstdint>

#include "device/backend.hpp"

namespace troupe::device::cuda {

/// The library has its own copy of this folder's code; memory of the host and the streams of threads are the program's.
struct program {
  const backend* cpu = nullptr;
  /// The backend's handle of stream::current on the calling thread.
  void* (*current_stream)(uint32_t index) = nullptr;
};

/// Called once, before anything else of this folder.
void use(const program& p);
const program& used_program();

/// A stream's handle is CUDA's own. Torch's streams stay as they are; whoever has Torch replaces `make_current`.
extern const backend cuda_backend;

}  // namespace troupe::device::cuda
