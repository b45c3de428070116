// Owns the report of each rank about the steps that it has measured (a vote, made of numbers alone), and the rule by
// which all ranks reach one result: the least memory, the highest peak, mean times. Also owns the rule for a rank
// without a profile. telemetry/ measures; choose/compile.hpp chooses by the result.
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
  std::string failure{};            ///< reason why there is no profile; empty: there is one
  uint64_t memory_bytes = 0;        ///< all memory that the rank may use, including what it already uses; 0: unknown
  uint64_t peak_bytes = 0;          ///< peak bytes of the rank in the measured steps
  double step_s = 0;                ///< seconds of the fastest step
  std::vector<price_sum> prices{};  ///< prices of the rank's instructions, over the measured steps
};

/// The result that all ranks use.
struct joined_votes {
  std::string failure;  ///< failure of the first rank without a profile, with its number; empty: all ranks have one
  uint64_t memory_bytes = 0;  ///< least memory of all ranks; 0: unknown on all
  uint64_t peak_bytes = 0;    ///< highest peak of all ranks
  double step_s = 0;          ///< longest step of all ranks, since no step ends before its last rank
  std::shared_ptr<const measured_prices> prices;  ///< mean prices; null if there is a failure
};

/// Joins the votes of `ranks` ranks, in rank order. A vote that is missing, in the wrong place, too large or has an
/// invalid time counts as a failure. Deterministic: the same result wherever the votes are joined.
joined_votes join(std::span<const rank_vote> votes, uint32_t ranks, const cost_model& costs);

}  // namespace troupe::plan
