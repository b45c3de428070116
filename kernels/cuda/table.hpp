// The table of operations (kernels/operations.hpp) of CUDA devices: the twins, on the stream of the calling thread. An
// entry that no configuration reaches with `device: cuda` throws std::logic_error with its name.
#pragma once

#include "kernels/cuda/kernels.hpp"
#include "kernels/operations.hpp"

namespace troupe::kernels::cuda {

struct surroundings {   ///< what the twins are called with
  stream (*current)();  ///< the calling thread's
  void (*note)(const core::result<void>& launched);
  /// orthogonalise.hpp, of products that Torch knows.
  void (*orthogonalise)(std::span<float> matrix, uint64_t rows, uint64_t cols, uint32_t steps,
                        std::span<float> scratch);
};

/// The table, which lives as long as the process. Called once: there is one table in a process.
const operations& table_with(const surroundings& s);

}  // namespace troupe::kernels::cuda
