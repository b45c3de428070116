// The table of operations (kernels/operations.hpp) of CUDA devices: the CUDA twins, on the stream of the calling
// thread. An entry that no configuration reaches with `device: cuda` throws std::logic_error with its name.
#pragma once

#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/scratch_memory.hpp"
#include "kernels/operations.hpp"

namespace troupe::kernels::cuda {

struct surroundings {   ///< functions of the program that the table calls
  stream (*current)();  ///< returns the calling thread's stream
  void (*note)(const core::result<void>& launched);
  /// Computes orthogonalise.hpp's iteration with Torch's products.
  void (*orthogonalise)(std::span<float> matrix, uint64_t rows, uint64_t cols, uint32_t steps,
                        std::span<float> scratch);
  /// Allocates memory between the stages of a kernel.
  scratch_memory scratch{};
};

/// Returns the table, which lives as long as the process. Called once: there is one table in a process.
const operations& table_with(const surroundings& s);

}  // namespace troupe::kernels::cuda
