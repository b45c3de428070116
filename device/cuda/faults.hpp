// Faults of work that no thread waits for: the first fault of the process is stored until take_fault() reads it. Owns
// the error sentences of faults. Internal to the library of CUDA devices.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "core/error.hpp"

namespace troupe::device::cuda {

/// Returns CUDA's message and the name of the error, as its manual spells it.
std::string text_of(cudaError_t status);

/// Stores an error of the call that `doing` names, if `status` is an error. After a fault of the device, every later
/// call fails, too.
void note(cudaError_t status, const char* doing);
void note(const core::result<void>& done);
/// Stores an error as note() does; every later call of the process fails, because the missing part has no substitute.
void note_for_good(cudaError_t status, const char* doing);

/// Returns the first fault that was stored. A fault of the device itself, or one for good, stays for as long as the
/// process lives; any other is returned once.
core::result<void> take_fault();

}  // namespace troupe::device::cuda
