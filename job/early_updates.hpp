// Decides, for a run that keeps two places for each state in its swap files, whether updates run before the vote (the
// collective that decides about clipping and skipping), if the configuration leaves this to the run: compares the gain
// with the cost of a step whose updates are undone. Owns the comparison of the two orders; the session counts the
// undone steps (actors/run/pass_scheduler.cpp).
#pragma once

#include <memory>
#include <string>

#include "job/blueprint.hpp"
#include "job/changed_steps.hpp"

namespace troupe::job {

/// True if the run chooses the order of updates while it runs: `cluster.early_updates` is auto, states are in swap
/// files, the configuration does not choose early updates already, the optimizer updates element by element, and
/// neither a GPU nor ZenFlow nor `compile` is used.
bool leaves_early_updates_open(const config::job_config& c);

/// Predicted seconds of a step with updates after the vote (late) and with updates before it (early), if none is
/// undone.
struct compared_orders {
  double late_s = 0, early_s = 0;
  double undone_s = 0;  ///< predicted seconds of a step whose early updates are undone
  /// Returns the largest share of undone steps at which early updates are not slower; 0: early updates gain nothing.
  [[nodiscard]] double worth() const;
};
/// Predicts the time of a step with these options, with updates before the vote and after it.
core::result<compared_orders> compare_orders(const std::shared_ptr<const core::model_table>& table,
                                             const plan::plan_options& trains, const plan::cost_model& costs);

/// If the run is to choose the order and early updates gain enough, replaces `waits` (options with late updates and all
/// sizes chosen) by options with two places for states and the sizes that early updates need. `trains` are the options
/// without chosen sizes.
core::result<open_order> leave_updates_open(const config::job_config& c,
                                            const std::shared_ptr<const core::model_table>& table,
                                            plan::plan_options trains, const plan::cost_model& costs, const go_on& more,
                                            plan::plan_options& waits);

/// Proves, for a blueprint with updates after the vote, that updates before the vote are possible too, and enlarges the
/// pools for them.
core::result<void> make_room_for_early_updates(blueprint& b);

/// Returns plans that update parameters before the vote (`early`) or after it, otherwise equal to the blueprint's.
core::result<changed_steps> with_updates(const blueprint& b, bool early);

/// Counts the steps of a run whose early updates were (or would have been) undone, and decides when to change the order
/// of updates.
class undone_steps {
 public:
  /// Number of steps after which the order of updates is decided again, from the number of undone steps among them.
  static constexpr uint32_t window = 8;
  /// Records the end of a step. Returns true if `window` steps have been recorded since the last decision and the order
  /// of updates should change.
  bool note(bool undone, bool early, double worth);
  /// Returns the number of undone steps in the last complete window of steps.
  [[nodiscard]] uint32_t of_window() const { return of_window_; }

 private:
  uint32_t seen_ = 0, undone_ = 0, of_window_ = 0;
};

/// Returns the message of a run that changes the order of its updates after `steps` steps.
std::string text_of_order(bool early, uint64_t steps, const undone_steps& undone, double worth);

}  // namespace troupe::job
