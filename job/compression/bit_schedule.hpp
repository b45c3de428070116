// Computes the bits of weights that lose bits during training (MoQ), and the fraction of the uncompressed weight that
// remains, after a number of updates. Pure; kernels/compress/compressed_weight.hpp applies them to a weight.
#pragma once

#include <cstdint>

namespace troupe::job {

struct bit_schedule {  ///< how the number of bits of a weight decreases during training (MoQ)
  uint32_t start_bits = 8, target_bits = 8;
  /// Step in which the first bit is removed; the second, third ... bit is removed in step 2, 4 ... times `period`.
  uint64_t period = 1;
  /// Decrease, in each step, of the uncompressed weight's fraction in the used weight; 0: the fraction is 0 from the
  /// start.
  double change_ratio = 0;
  bool operator==(const bit_schedule&) const = default;
};

struct moved_bits {  ///< number of bits of a weight in one step, while its bits decrease (MoQ)
  uint32_t bits = 8;
  float kept = 0;  ///< fraction of the uncompressed weight in the weight that is used, from 0 to 1
  bool operator==(const moved_bits&) const = default;
};

/// Returns the bits of a weight, and the fraction of the uncompressed weight in the weight that is used, in step number
/// `step`, counted from 1 from the step in which the technique begins. The fraction starts at 1 and is reset to 1 when
/// a bit is removed. Source: DeepSpeed's runtime/quantize.py, which has one fraction for all weights; that fraction may
/// fall below 0 for a step.
moved_bits bits_in_step(const bit_schedule& s, uint64_t step);

}  // namespace troupe::job
