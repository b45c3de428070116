// The share of a device's speed that remains when states stream from a slower tier: ZeRO-Infinity's model, in numbers.
// A plan tells the bytes that a step of ours moves, and when; this is the limit of any schedule.
#pragma once

#include <cstdint>

namespace troupe::plan {

/// A transformer and one iteration of it. Lengths in tokens, width in elements.
struct transformer_shape {
  uint64_t layers = 0, width = 0, heads = 0;
  uint64_t batch = 1;             ///< sequences of one rank in one iteration
  uint64_t sequence = 0;          ///< tokens
  uint64_t checkpoint_every = 1;  ///< layers between two kept activations
};

/// The paper's model: efficiency = compute time / (compute time + transfer time), nothing overlapped; a perfect overlap
/// reaches 100 % where this says 50 %. Source of all formulas of this file: "ZeRO-Infinity: Breaking the GPU Memory
/// Wall for Extreme Scale Deep Learning", arXiv 2104.07857, sections 3 and 4, for 16-bit parameters and gradients, fp32
/// optimizer states and recomputed activations, as known to us.
/// `intensity` in flops per byte, `bytes_per_s` of the tier to one rank, `peak_flops_per_s` of one rank.
double transfer_efficiency(double intensity, double bytes_per_s, double peak_flops_per_s);
/// The bandwidth at which that efficiency (above 0, below 1) is reached: bytes per second.
double bandwidth_for(double efficiency, double intensity, double peak_flops_per_s);

/// Flops of one iteration over the bytes of that kind that it moves. Parameters are read for forward, backward and
/// recomputation and their gradients written once; optimizer states are read and written once.
struct arithmetic_intensity {
  double parameters = 0;   ///< and gradients
  double optimizer = 0;    ///< states
  double activations = 0;  ///< kept ones
};
arithmetic_intensity intensity_of(const transformer_shape& shape);

/// 2 flops for a multiplication with an addition, 4 passes (forward, its recomputation, and backward as two).
double iteration_flops(const transformer_shape& shape);
/// Of the layers' matrices, 12 width^2 each.
uint64_t layer_parameters(const transformer_shape& shape);

struct paper_memory {         ///< bytes of the whole model, and of the working memory while it is computed
  uint64_t model_states = 0;  ///< 20 for each parameter
  uint64_t activation_checkpoints = 0;
  uint64_t model_working = 0;       ///< the largest matrix and its gradient, 16 bits
  uint64_t activation_working = 0;  ///< between two kept activations
};
paper_memory memory_of(const transformer_shape& shape);

/// Traffic of DeepSpeed's swappers with a disk for one rank and step, everything on NVMe: 16-bit parameters read
/// for forward and backward of each micro-batch; master, two moments and gradient read, then written.
struct swap_volume {  ///< bytes
  uint64_t read = 0, written = 0;
};
swap_volume swapped_by_deepspeed(uint64_t total_parameters, uint32_t ranks, uint32_t micro_batches);

}  // namespace troupe::plan
