// Implements Torch's CUDA key without libtorch_cuda: tensors that carry it are stored in the far device's memory and
// are computed by the CPU's own operations. Internal to tests/far.
#pragma once

#include <ATen/core/Tensor.h>

namespace troupe::far {

/// Returns a CPU tensor over the bytes of `t`, at the address that work of the device uses. Returns other tensors,
/// undefined ones too, unchanged.
at::Tensor on_host(const at::Tensor& t);

}  // namespace troupe::far
