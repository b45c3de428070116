// Owns the report of each rank about the steps that it has measured (its vote), and the rule by which all ranks join
// these reports to one result: the least memory, the highest peak, mean times. Also owns the rule for a rank without a
// profile. telemetry/ measures; choose/compile.hpp uses the result.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plan/choose/measured_prices.hpp"

namespace troupe::plan {

/// Maximum number of distinct instructions in a vote.
inline constexpr size_t vote_prices_max = size_t{1} << 17;

/// The report of one rank. A rank that could measure nothing reports, too: with a failure.
struct rank_vote {
  uint32_t rank = 0;
  std::string failure{};  ///< reason why the rank has no profile; empty: it has one
  /// Bytes that the rank may use, including bytes in use, of the memory that holds activations: the device's, if it has
  /// memory of its own, else all; 0: unknown.
  uint64_t memory_bytes = 0;
  uint64_t peak_bytes = 0;          ///< peak bytes of the rank in this memory, in the measured steps
  double step_s = 0;                ///< seconds of the rank's fastest measured step
  std::vector<price_sum> prices{};  ///< prices of the rank's instructions, over the measured steps
};

/// The votes of all ranks, joined; equal on every rank.
struct joined_votes {
  std::string failure;  ///< failure of the first rank without a profile, with its number; empty: all ranks have one
  uint64_t memory_bytes = 0;  ///< least memory in bytes that any rank may use; 0: unknown on all ranks
  uint64_t peak_bytes = 0;    ///< peak bytes of the rank with the highest peak
  double step_s = 0;          ///< seconds of the slowest rank's step, since no step ends before its last rank
  /// mean measured times of instructions over all ranks; null if a rank has no measurements
  std::shared_ptr<const measured_prices> prices;
};

/// Joins the votes of `ranks` ranks, in rank order. A vote that is missing, in the wrong place, too large or has an
/// invalid time counts as a failure. Deterministic: the same result wherever the votes are joined.
joined_votes join(std::span<const rank_vote> votes, uint32_t ranks, const cost_model& costs);

}  // namespace troupe::plan
