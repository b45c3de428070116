// The number of blocks of a grid whose threads stride over any number of elements.
#pragma once

#include <cstdint>

namespace troupe::kernels::cuda {

inline constexpr unsigned threads_per_block = 256;

/// Largest number of blocks of a grid: enough to fill any device several times over. In tests that run the kernels on
/// the host only a few, so that threads stride over small arrays, too.
#ifdef TROUPE_CUDA_ON_HOST
inline constexpr uint64_t max_blocks = 4;
#else
inline constexpr uint64_t max_blocks = 4096;
#endif

}  // namespace troupe::kernels::cuda
