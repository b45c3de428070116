// Computes the bits of weights that lose bits during training (MoQ), and the fraction of the uncompressed weight that
// remains, after a number of updates. Pure; kernels/compress/compressed_weight.hpp applies them to a weight.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

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
inline moved_bits bits_in_step(const bit_schedule& s, uint64_t step) {
  constexpr uint64_t most = std::numeric_limits<uint64_t>::max() / 2;
  uint32_t bits = s.start_bits;
  uint64_t latest = 0;  // step in which the latest bit was removed; 0: none yet
  for (uint64_t period = s.period; bits > s.target_bits; period = std::min(period, most) * 2) {
    const uint64_t at = std::max(period, latest + 1);  // at most one bit is removed in a step
    if (at > step) break;
    latest = at;
    --bits;
  }
  const double kept = s.change_ratio > 0 ? 1 - s.change_ratio * static_cast<double>(step - latest) : 0;
  return {bits, static_cast<float>(std::max(kept, 0.0))};
}

}  // namespace troupe::job
