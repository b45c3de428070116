// Causal self-attention out of LibTorch's own operations: for types that the CPU kernel does not take, and the readable
// twin of that kernel.
#pragma once

#include "models/functions.hpp"

namespace troupe::models {

/// causal_attention of any floating type.
at::Tensor composed_attention(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                              float dropout);

}  // namespace troupe::models
