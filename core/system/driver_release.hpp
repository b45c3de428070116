// Owns the table of the oldest release of NVIDIA's driver that runs programs built with each major version of CUDA.
#pragma once

#include <string_view>

namespace troupe::core {

/// Returns the oldest driver release that runs programs built with any minor version of CUDA `cuda_major`. Empty for an
/// unknown version.
constexpr std::string_view driver_release_for(int cuda_major) {
  return cuda_major == 13 ? "580" : cuda_major == 12 ? "525" : "";
}

}  // namespace troupe::core
