// Computes the cost of swap files in a step from the spans of its lanes: bytes, time, the time hidden by other work,
// and the longest wait. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "telemetry/spans.hpp"

namespace troupe::telemetry {

/// Swap figures of one step. Bytes are sums over all ranks; times are means over the ranks, in seconds.
struct io_figures {
  uint64_t planned_bytes = 0;                  ///< bytes of swap files that the plan reads and writes
  uint64_t read_bytes = 0, written_bytes = 0;  ///< bytes that the step moved; a skipped step may write fewer
  double read_s = 0, write_s = 0;              ///< seconds in which at least one read, or write, was in progress
  double read_hidden_s = 0;                    ///< seconds of read_s in which the compute or the shard lane worked
  /// Seconds in which a swap was in progress while neither the compute nor the shard lane worked.
  double stalled_s = 0;
  double longest_wait_s = 0;  ///< longest time in seconds that one instruction waited only for a swap
  /// Descriptions of the instruction that waited longest and of the swap that it waited for.
  std::string waiter, waited_for;

  [[nodiscard]] uint64_t bytes() const { return read_bytes + written_bytes; }
};
/// Computes the swap figures of one step without failure from the times of all its ranks.
io_figures io_of(std::span<const rank_spans> ranks);

/// Updates `mean` to the means over `steps` steps, of which `x` is the latest; keeps the longest wait of all steps.
void take_mean(io_figures& mean, const io_figures& x, uint64_t steps);

}  // namespace troupe::telemetry
