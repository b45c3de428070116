// Decides the learning rate and weight decay of each optimizer group in the next step: by the configuration's schedule,
// by the host program's, or as the host program has set them. Owns the questions to the host's schedule and the changes
// that a repeated step needs again; training_progress owns the values that a checkpoint stores.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "actors/run/hooks.hpp"
#include "actors/run/reports.hpp"
#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "job/step/step_rules.hpp"

namespace troupe::actors {

struct training_run;

/// Largest number of changes that are kept for steps which are repeated after the loss of a process. Older ones are
/// dropped, and a run that returns behind a dropped one ends.
inline constexpr size_t rate_changes_max = 4096;

class rate_keeper {
 public:
  explicit rate_keeper(training_run& run) : run_(run) {}
  rate_keeper(const rate_keeper&) = delete;
  rate_keeper& operator=(const rate_keeper&) = delete;

  /// Returns the optimizer groups as session::groups describes.
  [[nodiscard]] std::vector<group_values> groups() const;
  /// Implements session::set_learning_rate and session::set_weight_decay.
  core::result<void> set_learning_rate(uint32_t group, double rate);
  core::result<void> set_weight_decay(uint32_t group, double decay);

  /// Asks the host program's schedule for the rates of the next step, and repeats the changes that the host program
  /// made before that step, if the step is repeated. Call before each training step. Errors (bad_input): the schedule
  /// threw an exception, or returned rates that are negative, not finite, or not one for each group; nothing has
  /// changed.
  core::result<void> prepare();
  /// Returns the settings of the next update, by optimizer group.
  [[nodiscard]] std::vector<job::group_setting> settings() const;
  /// Call after each update that was applied: a schedule's next rate replaces one that was set.
  void note_update();
  /// Adopts the values of the checkpoint that was just loaded, which are in the run's progress: drops those of groups
  /// that this run does not have, and tells the host program in warnings that begin with `folder`.
  void take_over(const std::string& folder);
  /// Forgets which changes belong to which step. Call when the run goes back to other states.
  void forget() {
    changes_.clear();
    last_dropped_.reset();
  }
  /// True if the changes that the host program has made since the run had done `step` steps are all kept, so that the
  /// steps from there on can be repeated with the rates and decays that they had.
  [[nodiscard]] bool can_repeat_from(uint64_t step) const { return !last_dropped_ || *last_dropped_ < step; }

 private:
  enum class value : uint8_t { learning_rate, weight_decay };
  struct change {  // made by the host program when the run had done `step` steps
    uint64_t step = 0;
    uint32_t group = 0;
    value what = value::learning_rate;
    double to = 0;
  };
  core::result<void> set(const char* call, uint32_t group, value what, double to);
  void apply(const change& c);
  /// Keeps a change for a repeated step, in place of an earlier one of the same value before the same step.
  void keep(const change& made);

  training_run& run_;
  std::vector<double> asked_;  // [group]: rate that the host program's schedule returned last; empty: none yet
  std::deque<change> changes_;
  std::optional<uint64_t> last_dropped_;  // step of the latest change that was dropped; nullopt: none was
};

/// Checks that a host program's schedule of learning rates is not combined with a schedule of the configuration.
/// Errors: bad_input.
core::result<void> check_host_schedule(const session_hooks& hooks, const config::job_config& config);

}  // namespace troupe::actors
