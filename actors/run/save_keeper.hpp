// Saves the states and counters of a run; at most one save waits for the next step to copy its states, and at most one
// is being written. Owns which of the run's numbers a checkpoint contains, when a save begins and ends, and when its
// states are proved, so that older checkpoints may be removed; save_job.hpp writes the tensors.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "actors/saving/save_job.hpp"
#include "core/error.hpp"

namespace troupe::actors {

struct training_run;

/// Selects what collect() does with a save that is still being written: returns at once, or waits for it.
enum class unfinished_save : uint8_t { leave, wait };

class save_keeper {
 public:
  explicit save_keeper(training_run& run) : run_(run) {}
  save_keeper(const save_keeper&) = delete;
  save_keeper& operator=(const save_keeper&) = delete;

  /// save() and begin() implement session::save and session::save_async.
  core::result<std::filesystem::path> save(const save_request& request);
  core::result<void> begin(const save_request& request);
  [[nodiscard]] bool may_save() const;
  [[nodiscard]] bool is_under_way() const { return waiting_ != nullptr || writing_ != nullptr; }
  /// True if a save was requested and has not begun; the next run of a plan that saves copies the states for it.
  [[nodiscard]] bool is_waiting() const { return waiting_ != nullptr; }
  /// Waits until no save is in progress. If one waits for a step, copies the states for it now. Errors: those of the
  /// save; the run has ended.
  core::result<void> end_saves();
  /// If a save waits for the next step, copies the current states for it now. Call before anything but a step changes
  /// states.
  core::result<void> take_copies();
  /// If the save that is being written has ended, reports its result to the host program, once. Returns the error
  /// of a save that failed.
  std::optional<core::error> collect(unfinished_save what);

  /// Notes that a loss computed with the weights after `step` steps is finite, and no spike. This proves the saves of
  /// these and earlier weights: older checkpoints are removed as the requests say.
  void prove(uint64_t step);
  /// Forgets the checkpoints whose weights no loss has proved, because the run continues from other states: losses of
  /// these prove nothing about them.
  void forget_unproved() { unproved_.clear(); }

  /// Makes a save of the run into `files`. A later run of a plan that saves copies the states.
  core::result<std::shared_ptr<save_job>> make(storage::file_system& files, const save_request& request);
  /// Returns the save whose states are being copied or written; null: none.
  [[nodiscard]] const std::shared_ptr<save_job>& writing() const { return writing_; }
  /// Makes the waiting save the one that is being written, and returns it; null: none waits.
  std::shared_ptr<save_job> begin_writing();
  /// Ends all saves as failed, because processes were lost or change, with the error `why`; reports this to the
  /// host program if `tells` is true.
  void abandon(const core::error& why, bool tells);

 private:
  core::result<void> request(const save_request& request);
  core::result<void> save_without_lanes(const save_request& request);

  training_run& run_;
  std::shared_ptr<save_job> waiting_;  // save that waits for a run of a plan that saves; null: none
  std::shared_ptr<save_job> writing_;  // save whose states are being copied or written; null: none
  // The newest committed save in each folder of checkpoints, until a finite loss proves its weights
  std::vector<std::shared_ptr<save_job>> unproved_;
};

}  // namespace troupe::actors
