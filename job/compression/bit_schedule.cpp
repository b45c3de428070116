#include "job/compression/bit_schedule.hpp"

#include <algorithm>
#include <limits>

namespace troupe::job {

moved_bits bits_in_step(const bit_schedule& s, uint64_t step) {
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
