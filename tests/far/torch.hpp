// Implements Torch's CUDA key without libtorch_cuda: tensors with that key are stored in the simulated device's memory
// and computed by the CPU's operations. Internal to tests/far.
#pragma once

#include <ATen/core/Tensor.h>

namespace troupe::far {

/// Returns a CPU tensor over the bytes of `t`, at the address that work of the device uses. If `t` is undefined or not
/// on the device, returns `t` itself.
at::Tensor on_host(const at::Tensor& t);

}  // namespace troupe::far
