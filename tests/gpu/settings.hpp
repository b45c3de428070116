// Defines settings that the tests on a GPU share.
#pragma once

#include <fmt/format.h>

#include "tests/parity/places.hpp"

namespace troupe::tests {

/// Settings for a deterministic run: without cuda.deterministic, LibTorch's backward of attention adds in varying
/// order.
inline const settings on_gpu = {"device=cuda", "cuda.deterministic=true"};
inline const settings host_optimizer = {zero + "offload_optimizer.device=cpu"};

inline settings data_ranks(int n) { return {fmt::format("parallel.data={}", n)}; }

}  // namespace troupe::tests
