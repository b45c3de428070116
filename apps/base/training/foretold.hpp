// Holds a predicted step against the steps of a run, for the last lines of the run. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan/choose/cost.hpp"
#include "telemetry/figures/trace.hpp"

namespace troupe::apps {

/// Figures of a step, predicted or measured.
struct step_figures {
  double step_s = 0;
  double exposed_s = 0;       ///< communication that nothing hides, mean over the ranks
  double disk_s = 0;          ///< swaps that neither the compute nor the shard lane hides, mean over the ranks
  uint64_t memory_bytes = 0;  ///< peak of all ranks
  /// Seconds for which each kind of instruction works on a rank, mean over the ranks.
  std::map<plan::kind, double> busy_s = {};
};

/// A prediction beside what a run measured.
struct foretold {
  step_figures predicted, measured;
  std::string source;  ///< where the prediction's rates come from, as a clause
  uint64_t steps = 0;  ///< number of steps that were compared; 0: too few, and `measured` is empty
};

/// Smallest number of steps that are compared.
inline constexpr size_t least_compared_steps = 3;
/// Relative difference of predicted and measured step beyond which the kind of instruction to blame is named.
inline constexpr double largest_unnamed_difference = 0.15;

/// Returns the figures of a predicted step.
step_figures figures_of(const plan::timeline& predicted);

/// Returns the figures of a run: the median of its steps without the first two; the other figures are `means` over all
/// steps. `seconds`: of each step in their order.
foretold compared(step_figures predicted, const telemetry::step_summary& means, std::vector<double> seconds,
                  uint64_t memory_bytes, std::string source);

/// Returns the lines about it, each with its end: the step; if the difference is large, the kind to blame; exposed
/// communication, disk and memory.
std::string foretold_text(const foretold& x);
/// Returns a JSON object with `predicted`, `measured` (null if no steps were compared), `steps` and `rates`.
std::string foretold_json(const foretold& x);

}  // namespace troupe::apps
