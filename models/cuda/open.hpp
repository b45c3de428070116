// Devices of kind cuda in a program that has no CUDA code: libtroupe_cuda.so provides them. Owns finding and opening
// the library, and the error sentences for missing parts.
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/error.hpp"

namespace troupe::models {

/// Registers the library that the program links, or opens the one in `folder`; does nothing if devices of the kind are
/// provided already. Checks that device `index` can compute. Torch must not have computed a gradient before, because it
/// checks only once whether it has CUDA. Errors: limit, if the library, one that it needs, a driver or a device is
/// missing; mismatch, if the library is from another source tree.
core::result<void> open_cuda(const std::filesystem::path& folder, uint32_t index = 0);

/// Registers the library that the program links, if it links one. Errors: mismatch, if the library is from another
/// source tree.
core::result<void> take_linked_cuda();

}  // namespace troupe::models
