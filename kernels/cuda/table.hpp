// The table of operations (kernels/operations.hpp) of CUDA devices: the CUDA kernels, called on the stream of the
// calling thread. An operation without a CUDA kernel, which no configuration reaches with `device: cuda`, throws
// std::logic_error with its name.
#pragma once

#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/scratch_memory.hpp"
#include "kernels/operations.hpp"

namespace troupe::kernels::cuda {

struct surroundings {   ///< functions of the host program that the table's operations call
  stream (*current)();  ///< returns the calling thread's stream
  void (*note)(const core::result<void>& launched);
  /// Computes Muon's Newton-Schulz iteration (orthogonalise.hpp) with LibTorch's matrix products.
  void (*orthogonalise)(std::span<float> matrix, uint64_t rows, uint64_t cols, uint32_t steps,
                        std::span<float> scratch);
  /// Allocates and frees the temporary device memory of kernels.
  scratch_memory scratch{};
};

/// Returns the table with these functions; it lives as long as the process. Must be called only once, because a process
/// has one table.
const operations& table_with(const surroundings& s);

}  // namespace troupe::kernels::cuda
