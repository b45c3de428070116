// The two ways in which causal_attention is computed; which of them a type takes is said in attention.cpp.
#pragma once

#include "models/layers/functions.hpp"

namespace troupe::models {

/// Out of LibTorch's own operations, each rounded to the type of qkv: any floating type. The readable one.
at::Tensor composed_attention(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                              float dropout);

/// Through the CPU kernel, in fp32 between qkv and the result: fp32, bf16 and f16.
at::Tensor fused_attention(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                           float dropout);

}  // namespace troupe::models
