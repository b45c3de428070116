// What each rank says of the steps that it has measured, and how all ranks come to one answer: the least memory, the
// highest peak, mean times. Owns a vote, which is numbers alone, and the rule for one without a profile; telemetry/
// measures, choose/compile.hpp chooses by the answer.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plan/choose/measured_prices.hpp"

namespace troupe::plan {

/// Instructions of a vote that count as different.
inline constexpr size_t vote_prices_max = size_t{1} << 17;

/// A rank that could measure nothing votes too: with a failure.
struct rank_vote {
  uint32_t rank = 0;
  std::string failure{};            ///< why there is no profile; empty: there is one
  uint64_t memory_bytes = 0;        ///< all that the rank may take, what it has included; 0: unknown
  uint64_t peak_bytes = 0;          ///< the most that it had in these steps
  double step_s = 0;                ///< of the step that took least
  std::vector<price_sum> prices{};  ///< of its instructions, over these steps
};

/// What all ranks go by.
struct joined_votes {
  std::string failure;        ///< of the first rank without a profile, with its number; empty: all have one
  uint64_t memory_bytes = 0;  ///< the least; 0: unknown on all
  uint64_t peak_bytes = 0;    ///< the highest
  double step_s = 0;          ///< the longest, since no step ends before its last rank
  std::shared_ptr<const measured_prices> prices;  ///< means; null with a failure
};

/// The votes of `ranks` ranks, in rank order. A vote that is missing, in the wrong place, too large or has a time that
/// is none counts as a failure. Deterministic: the same answer wherever the votes are joined.
joined_votes join(std::span<const rank_vote> votes, uint32_t ranks, const cost_model& costs);

}  // namespace troupe::plan
