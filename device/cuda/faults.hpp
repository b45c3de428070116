// Faults of work that nobody waits for: the first fault of the process is kept until somebody asks. Owns its sentences.
// Internal to the library of CUDA devices.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "core/error.hpp"

namespace troupe::device::cuda {

/// CUDA's own words and the name of the error, as its manual has it.
std::string text_of(cudaError_t status);

/// Keeps what `doing` came to, where that is no success. Behind a fault on the device, every later call fails, too.
void note(cudaError_t status, const char* doing);
void note(const core::result<void>& done);

/// The first fault that was kept. One of the device itself stays for as long as the process lives, another is told
/// once.
core::result<void> take_fault();

}  // namespace troupe::device::cuda
