// Computes the share of a device's speed that remains when states stream from a slower tier, by ZeRO-Infinity's model.
// The result is the limit of any schedule; the bytes that a step of Troupe moves, and when, are in its plan.
#pragma once

#include <cstdint>

namespace troupe::plan {

/// A transformer and one iteration of it. Lengths in tokens, width in elements.
struct transformer_shape {
  uint64_t width = 0;
  uint64_t batch = 1;             ///< sequences of one rank in one iteration
  uint64_t sequence = 0;          ///< tokens of a sequence
  uint64_t checkpoint_every = 1;  ///< number of layers between two kept activations
};

/// Returns the efficiency in the paper's model: compute time / (compute time + transfer time), with nothing overlapped.
/// A perfect overlap reaches 100 % where this function returns 50 %. Source of all formulas of this file:
/// "ZeRO-Infinity: Breaking the GPU Memory Wall for Extreme Scale Deep Learning", arXiv 2104.07857, sections 3 and 4,
/// for 16-bit parameters and gradients, fp32 optimizer states and recomputed activations, as known to the authors of
/// Troupe. `intensity` in flops per byte, `bytes_per_s` of the tier to one rank, `peak_flops_per_s` of one rank.
double transfer_efficiency(double intensity, double bytes_per_s, double peak_flops_per_s);
/// Returns the bandwidth, in bytes per second, at which transfer_efficiency() returns `efficiency`, which must be
/// above 0 and below 1.
double bandwidth_for(double efficiency, double intensity, double peak_flops_per_s);

/// Flops of one iteration per byte of one kind that the iteration moves. Parameters are read for forward, backward and
/// recomputation, and their gradients are written once; optimizer states are read and written once.
struct arithmetic_intensity {
  double parameters = 0;   ///< flops per byte of parameters and gradients
  double optimizer = 0;    ///< flops per byte of optimizer states
  double activations = 0;  ///< flops per byte of kept activations
};
arithmetic_intensity intensity_of(const transformer_shape& shape);

/// Bytes that DeepSpeed's swappers exchange with a disk for one rank and step, with everything on NVMe. 16-bit
/// parameters are read for forward and backward of each micro-batch; master, two moments and gradient are read, then
/// written.
struct swap_volume {
  uint64_t read = 0, written = 0;
};
swap_volume swapped_by_deepspeed(uint64_t total_parameters, uint32_t ranks, uint32_t micro_batches);

}  // namespace troupe::plan
