// Devices of kind cuda in a program that has no CUDA code: libtroupe_cuda.so provides them. Owns finding and opening
// the library, and the error sentences for missing parts.
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/error.hpp"

namespace troupe::models {

/// Makes CUDA devices available: registers libtroupe_cuda.so, which the program links or which is opened from `folder`,
/// unless that has been done before; then checks that device `index` can compute. Torch must not have computed a
/// gradient before, because it checks only once whether it has CUDA. Errors: limit, if the library, one that it needs,
/// a driver or a device is missing; mismatch, if the library is from another source tree.
core::result<void> open_cuda(const std::filesystem::path& folder, uint32_t index = 0);

/// Makes CUDA devices available if the program links libtroupe_cuda.so; does nothing otherwise. Errors: mismatch, if
/// the library is from another source tree.
core::result<void> take_linked_cuda();

}  // namespace troupe::models
