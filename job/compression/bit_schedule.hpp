// Weights that lose bits while they are trained (MoQ): how many they have, and how much of a weight is still its own,
// after some updates. Pure; what is made of a weight is kernels/compress/compressed_weight.hpp's.
#pragma once

#include <cstdint>

namespace troupe::job {

struct bit_schedule {  ///< how a weight loses its bits (MoQ)
  uint32_t start_bits = 8, target_bits = 8;
  uint64_t period = 1;      ///< steps until the first bit goes; each later one takes twice as long
  double change_ratio = 0;  ///< by which the weight's own share falls in a step; 0: it has none from the start
  bool operator==(const bit_schedule&) const = default;
};

struct moved_bits {  ///< of a weight in one step
  uint32_t bits = 8;
  float kept = 0;  ///< share of the weight itself
  bool operator==(const moved_bits&) const = default;
};

/// In step number `step` of those with the technique on, from 1. The share begins at 1 and is 1 again where a bit goes.
/// Source: DeepSpeed's runtime/quantize.py, whose share is one for all weights and may fall below 0 for a step.
moved_bits bits_in_step(const bit_schedule& s, uint64_t step);

}  // namespace troupe::job
