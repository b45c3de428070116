// Whether a run whose states have two places in its swap files updates before the vote, where the configuration leaves
// that to the run: by what it gains, and by what a step costs that is undone. Owns the comparison of the two orders;
// the session counts the steps that were undone (actors/session/compile.cpp).
#pragma once

#include <memory>
#include <string>

#include "job/blueprint.hpp"
#include "job/changed_steps.hpp"

namespace troupe::job {

/// The run decides while it goes on: `cluster.early_updates` is auto, states are in files, steps may be skipped or
/// clipped, and nothing else changes its plans.
bool leaves_early_updates_open(const config::job_config& c);

/// What a step takes in either order, by predicted times. In seconds.
struct compared_orders {
  double late_s = 0, early_s = 0;
  double undone_s = 0;  ///< of one that is early and undone
  /// The largest share of steps that may be undone for early updates not to be slower; 0: they gain nothing.
  [[nodiscard]] double worth() const;
};
/// Of a step of these options, with the updates in either order.
core::result<compared_orders> compare_orders(const std::shared_ptr<const core::model_table>& table,
                                             const plan::plan_options& trains, const plan::cost_model& costs);

/// `waits`, options with updates that wait and all sizes chosen, become options with two places for states and the
/// sizes that early updates want, where the run is to decide and early updates gain enough. `trains` has no chosen
/// sizes.
core::result<open_order> leave_updates_open(const config::job_config& c,
                                            const std::shared_ptr<const core::model_table>& table,
                                            plan::plan_options trains, const plan::cost_model& costs, const go_on& more,
                                            plan::plan_options& waits);

/// Proves the early order of a blueprint whose updates wait, and makes its pools large enough for it.
core::result<void> make_room_for_early_updates(blueprint& b);

/// The blueprint's steps with updates before the vote, or behind it.
core::result<changed_steps> with_updates(const blueprint& b, bool early);

/// The part of the steps of a run that were undone lately, and whether that calls for the other order.
class undone_steps {
 public:
  /// Steps that are looked at together.
  static constexpr uint32_t window = 8;
  /// A step has ended. True: a window is full and the order should change.
  bool note(bool undone, bool early, double worth);
  /// The undone steps of the last full window.
  [[nodiscard]] uint32_t of_window() const { return of_window_; }

 private:
  uint32_t seen_ = 0, undone_ = 0, of_window_ = 0;
};

/// The sentence with which a run changes the order of its updates after `steps` steps.
std::string text_of_order(bool early, uint64_t steps, const undone_steps& undone, double worth);

}  // namespace troupe::job
