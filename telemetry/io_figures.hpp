// The cost of swap files in a step, from the lanes' spans: bytes, time, how much of it was hidden behind work, and
// who waited for what. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "telemetry/spans.hpp"

namespace troupe::telemetry {

/// Figures of one step. Bytes of all ranks together; times are means over the ranks, in seconds.
struct io_figures {
  uint64_t planned_bytes = 0;                  ///< read and written, as the plan has it
  uint64_t read_bytes = 0, written_bytes = 0;  ///< moved; less where a skipped step writes nothing
  double read_s = 0, write_s = 0;              ///< some read, some write under way
  double read_hidden_s = 0;                    ///< of read_s, while the compute or the shard lane worked
  double stalled_s = 0;                        ///< some swap under way while neither of them worked
  double longest_wait_s = 0;                   ///< of one instruction that waited for nothing but a swap
  std::string waiter, waited_for;              ///< these two, as the plan names them

  [[nodiscard]] uint64_t bytes() const { return read_bytes + written_bytes; }
};
/// Figures of one run, which has ended well.
io_figures io_of(std::span<const rank_spans> ranks);

/// Means over `steps` steps of which `x` is the latest; the longest wait is the longest of all.
void take_mean(io_figures& mean, const io_figures& x, uint64_t steps);

}  // namespace troupe::telemetry
