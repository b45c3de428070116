// Torch's CUDA key without libtorch_cuda: tensors that carry it lie in the far device's memory and are computed with
// by the CPU's own operations. Internal to tests/far.
#pragma once

#include <ATen/core/Tensor.h>

namespace troupe::far {

/// A tensor of the CPU over the bytes of `t`, at the address that work of the device uses; other tensors, undefined
/// ones too, as they are.
at::Tensor on_host(const at::Tensor& t);

}  // namespace troupe::far
