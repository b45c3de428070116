// Causal attention on a CUDA device, by the kernels that LibTorch brings along. Owns the choice among them.
#pragma once

#include "models/layers/attention.hpp"

namespace troupe::models::cuda {

/// Flash attention (Dao, "FlashAttention-2", arXiv 2307.08691) for bf16 and f16 of head widths that it takes, else the
/// memory-efficient kernel of CUTLASS, for fp32, too. Both form sums in fp32 and keep output and logarithms of sums.
/// Throws c10::Error for fp64, dropout of weights and columns that are cut, which device: cuda refuses before.
extern const attention_operations attention;

}  // namespace troupe::models::cuda
