// Computes the bits of weights that lose bits during training (MoQ), and the share of the uncompressed weight that
// remains, after a number of updates. Pure; kernels/compress/compressed_weight.hpp applies them to a weight.
#pragma once

#include <cstdint>

namespace troupe::job {

struct bit_schedule {  ///< how a weight loses its bits (MoQ)
  uint32_t start_bits = 8, target_bits = 8;
  uint64_t period = 1;  ///< number of steps until the first bit is removed; the time doubles for each later bit
  /// Decrease of the uncompressed weight's share in a step; 0: that share is 0 from the start.
  double change_ratio = 0;
  bool operator==(const bit_schedule&) const = default;
};

struct moved_bits {  ///< bits of a weight in one step
  uint32_t bits = 8;
  float kept = 0;  ///< share of the uncompressed weight in the weight that is used
  bool operator==(const moved_bits&) const = default;
};

/// Returns the bits in step number `step`, counted from 1, of the steps with the technique on. The share starts at 1
/// and is reset to 1 when a bit is removed. Source: DeepSpeed's runtime/quantize.py, which has one share for all
/// weights, and whose share may fall below 0 for a step.
moved_bits bits_in_step(const bit_schedule& s, uint64_t step);

}  // namespace troupe::job
