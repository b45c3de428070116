// Saves a run: at most one save that waits for the next step, and one that is being written. Owns which of the run's
// numbers a checkpoint holds and when a save begins and ends; save_job.hpp writes the tensors.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "actors/saving/save_job.hpp"
#include "core/error.hpp"

namespace troupe::actors {

struct training_run;

/// The treatment of a save that is still being written: left alone, or waited for.
enum class unfinished_save : uint8_t { leave, wait };

class save_keeper {
 public:
  explicit save_keeper(training_run& run) : run_(run) {}
  save_keeper(const save_keeper&) = delete;
  save_keeper& operator=(const save_keeper&) = delete;

  /// save and begin implement session::save and session::save_async.
  core::result<std::filesystem::path> save(const save_request& request);
  core::result<void> begin(const save_request& request);
  [[nodiscard]] bool may_save() const;
  [[nodiscard]] bool is_under_way() const { return waiting_ != nullptr || writing_ != nullptr; }
  /// True if a save was requested and has not begun: the next run that saves makes its copies.
  [[nodiscard]] bool is_waiting() const { return waiting_ != nullptr; }
  /// Waits until no save is under way; if one waits for a step, the copies are taken here. Errors: the save's; the run
  /// is over.
  core::result<void> end_saves();
  /// Makes a waiting save copy the current states now. Call before states change other than by a step.
  core::result<void> take_copies();
  /// Reports to the host, once, whether the save in progress succeeded. Returns the error of a save that failed.
  std::optional<core::error> collect(unfinished_save what);

  /// Returns a new save of the current states into `files`, whose states are not copied yet.
  core::result<std::shared_ptr<save_job>> make(checkpoint::file_system& files, const save_request& request);
  /// Returns the save whose states are being copied or written; null: none.
  [[nodiscard]] const std::shared_ptr<save_job>& writing() const { return writing_; }
  /// Returns the save that waits, which is being written from now on; null: none waits.
  std::shared_ptr<save_job> begin_writing();
  /// Abandons all saves because the term has ended with `why`; reports them to the host if `tells` is true.
  void abandon(const core::error& why, bool tells);

 private:
  core::result<void> request(const save_request& request);
  core::result<void> save_without_lanes(const save_request& request);

  training_run& run_;
  std::shared_ptr<save_job> waiting_;  // requested and not begun: the next run that saves makes its copies
  std::shared_ptr<save_job> writing_;  // states are being copied, or are copied and being written
};

}  // namespace troupe::actors
