// Causal attention on a CUDA device, by LibTorch's kernels. Owns the choice among them.
#pragma once

#include "models/layers/attention.hpp"

namespace troupe::models::cuda {

/// Attention on CUDA devices: flash attention (Dao, "FlashAttention-2", arXiv 2307.08691) for bf16 and f16 with the
/// head widths that it supports, else the memory-efficient kernel of CUTLASS, also for fp32. Both apply windows, form
/// sums in fp32, and keep the output and the logarithms of the softmax's sums for backward. Throws c10::Error for fp64,
/// dropout of attention weights, a soft cap of the scores, and columns that are split over ranks; configurations with
/// `device: cuda` that would need them are refused earlier.
extern const attention_operations attention;

}  // namespace troupe::models::cuda
