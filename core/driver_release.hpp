// NVIDIA's drivers by what programs were built with. Owns the numbers.
#pragma once

#include <string_view>

namespace troupe::core {

/// The first driver's release for a major version of CUDA: it runs programs of all minor versions. Empty: not known.
constexpr std::string_view driver_release_for(int cuda_major) {
  return cuda_major == 13 ? "580" : cuda_major == 12 ? "525" : "";
}

}  // namespace troupe::core
