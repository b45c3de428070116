// Implements Torch's CUDA key without libtorch_cuda: tensors with that key are stored in the simulated device's memory
// and computed by the CPU's operations. Internal to tests/far.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/cuda/use.hpp"

namespace troupe::far {

/// Tells `w` of the memory that tensors of the device take, and of its release, which queued work may still precede.
core::result<void> watch_memory(const models::memory_watch& w);

/// Returns a CPU tensor over the bytes of `t`, at the address that work of the device uses. If `t` is undefined or not
/// on the device, returns `t` itself.
at::Tensor on_host(const at::Tensor& t);

}  // namespace troupe::far
