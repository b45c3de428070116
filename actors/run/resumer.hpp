// Continues a run from a checkpoint of any format, when a term begins and while the run lives. Owns the meaning of
// another run's steps, samples and seed in this run, and the record of the teacher; checkpoint_load.hpp owns tensors.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "actors/loading/load_options.hpp"
#include "actors/opening/opening.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::actors {

struct training_run;

/// The time at which a checkpoint is loaded: before the actors exist, or while they live.
enum class resume_time : uint8_t { while_opening, while_running };

/// Functions that synchronise the processes of a job while all of them load a checkpoint between two steps. Empty
/// functions: the job has one process.
struct load_agreement {
  std::function<core::result<void>()> before_changes{};  ///< called once no check refuses the checkpoint
  /// called after this process has loaded the states of the checkpoint
  std::function<core::result<void>()> after_changes{};
};

class resumer {
 public:
  explicit resumer(training_run& run) : run_(run) {}
  resumer(const resumer&) = delete;
  resumer& operator=(const resumer&) = delete;

  /// Loads a checkpoint and returns its folder. After an error before any change the run is unchanged; after a later
  /// error the run is over.
  core::result<std::filesystem::path> resume(const std::filesystem::path& from, load_options options, resume_time when,
                                             opening_watch& watch, const load_agreement& agreed = {});
  /// Loads a checkpoint that is open already, as resume() does.
  core::result<void> take_over(const checkpoint::tensor_source& from, load_options options, resume_time when,
                               opening_watch& watch, const load_agreement& agreed = {});
  /// Prepares the states of a run that begins at step 0 from its first weights: the layers that `model.teacher` gives,
  /// masks, and samples that are left out from the start (`left_out`, if given, decides these).
  core::result<void> begin(opening_watch& watch, const std::optional<std::vector<core::left_out_steps>>& left_out = {});

  /// Loads a checkpoint as session::load does, but does not repeat the load if the term ends meanwhile.
  core::result<loaded_checkpoint> load_once(const std::filesystem::path& path, const load_options& options);
  /// Moves the loader to the sample with which the run continues. Call after a load while the actors live.
  core::result<void> tell_loader();

  /// Reads the record of the teacher for checkpoints, if there is a teacher; reads it once, at the first call.
  core::result<void> look_at_teacher();
  /// Returns the record of the teacher; none: there is no teacher.
  [[nodiscard]] const std::optional<checkpoint::teacher_record>& teacher() const { return teacher_; }

 private:
  /// Returns a sentence about frozen parameters that the run's checkpoints leave out and that keep their values; empty
  /// if there are none. Error (mismatch): the run begins with other first weights than the checkpoint's run, or would
  /// lose frozen parameters that this checkpoint holds.
  [[nodiscard]] core::result<std::string> keep_frozen(const checkpoint::tensor_source& from,
                                                      const load_options& options, resume_time when) const;
  /// Loads the layers of `model.teacher` that the model begins with, if it begins with any.
  core::result<void> take_layers(opening_watch& watch);

  training_run& run_;
  std::optional<checkpoint::teacher_record> teacher_;
};

}  // namespace troupe::actors
