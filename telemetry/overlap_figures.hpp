// The parts of a step that computation hides: gathers, reductions, swaps and updates, from the times of instructions,
// measured or predicted alike. Pure.
#pragma once

#include <span>
#include <string>

#include "plan/choose/cost.hpp"
#include "telemetry/spans.hpp"

namespace troupe::telemetry {

/// Work of one kind in a step: mean over the ranks, in seconds.
struct hidden_time {
  double busy_s = 0;    ///< some of it under way
  double hidden_s = 0;  ///< of that, while the compute lane of the same rank worked
  /// The hidden part, 0 to 1; 1 where there is none of this work.
  [[nodiscard]] double share() const { return busy_s > 0 ? hidden_s / busy_s : 1; }
};

/// Times of a step by kind of work, and which parts of them computation hides.
struct overlap_figures {
  hidden_time gathers, reductions, swaps, updates;
};

/// Figures of one step. A collective counts from when its last member had posted it, a swap from when it was asked for.
overlap_figures overlap_of(std::span<const rank_spans> ranks);
/// Figures of the predicted step: of all plans of the timeline, each counted as one rank.
overlap_figures overlap_of(const plan::timeline& predicted);

/// Means over `steps` steps of which `x` is the latest.
void take_mean(overlap_figures& mean, const overlap_figures& x, uint64_t steps);

/// `hidden behind compute: gathers 83% of 12.1 ms, ...`, without an end of line; kinds that a step does not have are
/// left out, and the whole line where it has none.
std::string overlap_line(const overlap_figures& x);
/// An object with a member for each kind.
std::string overlap_json(const overlap_figures& x);

}  // namespace troupe::telemetry
