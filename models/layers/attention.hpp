// The two implementations of causal_attention; attention.cpp chooses one by type.
#pragma once

#include "models/layers/functions.hpp"

namespace troupe::models {

/// Composed of LibTorch's own operations, each rounded to the type of qkv: any floating type. The readable one.
at::Tensor composed_attention(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                              float dropout);

/// Through the CPU kernel, in fp32 between qkv and the result: fp32, bf16 and f16.
at::Tensor fused_attention(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                           float dropout);

}  // namespace troupe::models
