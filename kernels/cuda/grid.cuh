// The size of a grid of threads that strides over any number of elements.
#pragma once

#include <cstdint>

namespace troupe::kernels::cuda {

inline constexpr unsigned threads_per_block = 256;

/// Most blocks of a grid: enough to fill any device several times over. On the host only a few, so that threads stride
/// over small arrays.
#ifdef TROUPE_CUDA_ON_HOST
inline constexpr uint64_t max_blocks = 4;
#else
inline constexpr uint64_t max_blocks = 4096;
#endif

}  // namespace troupe::kernels::cuda
