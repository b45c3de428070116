// Owns the oldest releases of NVIDIA's driver that run programs built with a version of CUDA.
#pragma once

#include <string_view>

namespace troupe::core {

/// Returns the first driver release for a major version of CUDA; it runs programs of all minor versions. Empty for an
/// unknown version.
constexpr std::string_view driver_release_for(int cuda_major) {
  return cuda_major == 13 ? "580" : cuda_major == 12 ? "525" : "";
}

}  // namespace troupe::core
