// Errors of asynchronous device work and of calls that return no error: the first fault of the process is stored until
// take_fault() returns it. Owns the error sentences of faults. Internal to the library of CUDA devices.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "core/error.hpp"

namespace troupe::device::cuda {

/// Returns CUDA's message and the name of the error, as its manual spells it.
std::string text_of(cudaError_t status);

/// If `status` is an error, stores it as a fault; `doing` says what the call did, for the message. A stored fault of a
/// lost device is permanent: every later take_fault() returns it.
void note(cudaError_t status, const char* doing);
void note(const core::result<void>& done);
/// Stores an error as a permanent fault, which every later take_fault() of the process returns: for missing objects,
/// such as a stream, that nothing can replace.
void note_for_good(cudaError_t status, const char* doing);

/// Returns the stored fault, or no error. A fault of a lost device and one of note_for_good() are returned by every
/// call; any other fault is returned once.
core::result<void> take_fault();

}  // namespace troupe::device::cuda
