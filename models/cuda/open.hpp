// Devices of kind cuda in a program that has none of CUDA's code: libtroupe_cuda.so provides them. Owns finding and
// opening it, and the sentences for what is missing.
#pragma once

#include <filesystem>

#include "core/error.hpp"

namespace troupe::models {

/// Takes the library that the program links, or opens the one in `folder`; nothing where devices of the kind are
/// provided already. Torch must not have computed a gradient by then, since it asks only once whether it has CUDA.
/// Errors: limit, where the library, one that it needs, a driver or a device is missing; mismatch, where the library is
/// another tree's.
core::result<void> open_cuda(const std::filesystem::path& folder);

/// Takes the library that the program links, where it does. Errors: mismatch, likewise.
core::result<void> take_linked_cuda();

}  // namespace troupe::models
