// Holds a predicted step against the steps of a run, for the last lines of the run. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/run/reports.hpp"
#include "plan/choose/cost.hpp"
#include "telemetry/figures/trace.hpp"

namespace troupe::apps {

/// Figures of a step, predicted or measured.
struct step_figures {
  double step_s = 0;
  double exposed_s = 0;       ///< communication that nothing hides, mean over the ranks
  double disk_s = 0;          ///< swaps that neither the compute nor the shard lane hides, mean over the ranks
  uint64_t memory_bytes = 0;  ///< peak of all ranks
  telemetry::step_division division = {};  ///< of a run: `idle_s` includes the time between steps
};

/// The steps of a run that are held against the prediction: those of its last plan but the first two, when caches and
/// pages are cold, without steps that were skipped, undone or took a checkpoint, or that followed an evaluation.
class compared_steps {
 public:
  void add(const actors::step_report& r);
  /// Leaves out the next step, which finds caches and windows as an evaluation has left them.
  void note_evaluation() { follows_evaluation_ = true; }
  /// Returns the figures: the median of the steps' seconds, and means. Requires steps.
  [[nodiscard]] step_figures figures(uint64_t memory_bytes) const;
  [[nodiscard]] uint64_t number() const { return number_; }
  /// True if steps of an earlier plan were left out.
  [[nodiscard]] bool has_changed() const { return plans_ > 1; }

 private:
  std::vector<double> seconds_;  // of the first steps, up to a limit
  telemetry::step_summary means_;
  uint64_t number_ = 0, cold_ = 0, plans_ = 0;
  bool follows_evaluation_ = false;
};

/// A prediction beside what a run measured.
struct foretold {
  step_figures predicted, measured;
  std::string source;            ///< where the prediction's rates come from, as a clause
  uint64_t steps = 0;            ///< number of steps that were compared; 0: too few, and `measured` is empty
  bool is_of_last_plan = false;  ///< the run's plan changed: earlier steps are not compared
};

/// Smallest number of steps that are compared.
inline constexpr size_t least_compared_steps = 3;
/// Relative difference of predicted and measured step beyond which the kind of instruction to blame is named.
inline constexpr double largest_unnamed_difference = 0.15;

/// Largest number of ranks of a run whose step is predicted at its end.
inline constexpr uint32_t most_foretold_ranks = 64;

/// Returns the sentence that says why the step of a run of this many ranks is not predicted; empty: it is.
std::string not_foretold_text(uint32_t ranks);

/// Returns the figures of a predicted step, by the definitions of measured ones.
step_figures figures_of(const plan::timeline& predicted);

/// Holds the prediction against the steps of a run, unless they are fewer than least_compared_steps.
foretold compared(step_figures predicted, const compared_steps& steps, uint64_t memory_bytes, std::string source);

/// Returns the lines about it, each with its end: the step; if the difference is large, the kind to blame; exposed
/// communication, disk and memory.
std::string foretold_text(const foretold& x);
/// Returns a JSON object with `predicted`, `measured` (null if no steps were compared), `steps` and `rates`.
std::string foretold_json(const foretold& x);

}  // namespace troupe::apps
