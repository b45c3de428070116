// Computes the parts of a step that computation hides: gathers, reductions, swaps and updates. Works on measured and
// predicted times of instructions. Pure.
#pragma once

#include <span>
#include <string>

#include "plan/choose/cost.hpp"
#include "telemetry/spans.hpp"

namespace troupe::telemetry {

/// Time of one kind of work in a step: mean over the ranks, in seconds.
struct hidden_time {
  double busy_s = 0;    ///< seconds in which at least one instruction of the kind was in progress
  double hidden_s = 0;  ///< seconds of busy_s in which the compute lane of the same rank worked
  /// Returns the fraction of the time that is hidden, from 0 to 1; 1 if the step has no work of this kind.
  [[nodiscard]] double share() const { return busy_s > 0 ? hidden_s / busy_s : 1; }
};

/// Times of a step by kind of work, and the parts of them that computation hides.
struct overlap_figures {
  hidden_time gathers, reductions, swaps, updates;
};

/// Computes the figures of one step. A collective's time begins when its last member has posted it, a swap's when it
/// was requested.
overlap_figures overlap_of(std::span<const rank_spans> ranks);
/// Computes the figures of a predicted step over all plans of the timeline, each counted as one rank.
overlap_figures overlap_of(const plan::timeline& predicted);

/// Updates `mean` to the means over `steps` steps, of which `x` is the latest.
void take_mean(overlap_figures& mean, const overlap_figures& x, uint64_t steps);

/// Returns `hidden behind compute: gathers 83% of 12.1 ms, ...` without a line end. Omits kinds of work that the step
/// does not have; returns an empty text if the step has none.
std::string overlap_line(const overlap_figures& x);
/// Returns a JSON object with one member for each kind of work (gathers, reductions, swaps, updates).
std::string overlap_json(const overlap_figures& x);

}  // namespace troupe::telemetry
