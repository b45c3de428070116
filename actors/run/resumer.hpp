// Continues a run from a checkpoint of any format, when a term (time with the same processes) begins or between two
// steps. Owns how steps, samples and seed of the checkpoint's run apply to this run, and the record of the distillation
// teacher; checkpoint_load.hpp owns the loading of tensors.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "actors/loading/load_options.hpp"
#include "actors/opening/opening.hpp"
#include "core/error.hpp"
#include "formats/source/run_records.hpp"
#include "formats/source/tensor_source.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::actors {

struct training_run;

/// The time at which a checkpoint is loaded: before the actors exist, or while they live.
enum class resume_time : uint8_t { while_opening, while_running };

/// Functions that synchronise the processes of a job while each of them loads the same checkpoint between two steps.
/// Empty functions: the job has one process.
struct load_agreement {
  /// Called when this process has checked the checkpoint, before it changes any state
  std::function<core::result<void>()> before_changes{};
  /// called after this process has loaded the states of the checkpoint
  std::function<core::result<void>()> after_changes{};
};

class resumer {
 public:
  explicit resumer(training_run& run) : run_(run) {}
  resumer(const resumer&) = delete;
  resumer& operator=(const resumer&) = delete;

  /// Loads the checkpoint at `from` and returns its folder. If an error occurs before any state has changed, the run is
  /// unchanged; after a later error the run has ended. With load_options::fallback_to_previous, a load of one process
  /// that meets damaged bytes begins anew, with the newest checkpoint that is whole by then.
  core::result<std::filesystem::path> resume(const std::filesystem::path& from, load_options options, resume_time when,
                                             opening_watch& watch, const load_agreement& agreed = {});
  /// Loads an opened checkpoint, as resume() does.
  core::result<void> take_over(const formats::tensor_source& from, load_options options, resume_time when,
                               opening_watch& watch, const load_agreement& agreed = {});
  /// True if another load may follow one that ended with `why` after it had changed states: damaged bytes are the
  /// cause, and a load with `options` replaces all states, so that none of the damaged checkpoint stays. In that case
  /// the call also makes the run go on. Requires a run of one process.
  bool may_begin_anew(const core::error& why, const load_options& options);
  /// Prepares a run that begins at step 0 from initial weights: loads the layers that `model.teacher` provides, makes
  /// pruning masks, and decides which samples are left out; `left_out` replaces that decision.
  core::result<void> begin(opening_watch& watch, const std::optional<std::vector<core::left_out_steps>>& left_out = {});

  /// Loads a checkpoint as session::load does, but does not repeat the load if processes are lost meanwhile.
  core::result<loaded_checkpoint> load_once(const std::filesystem::path& path, const load_options& options);
  /// Makes the loader continue at the sample with which the run continues. Call after a load while the actors exist.
  core::result<void> tell_loader();

  /// Computes the record of the distillation teacher for checkpoints, if there is a teacher; does nothing after the
  /// first call.
  core::result<void> look_at_teacher();
  /// Returns the record of the distillation teacher; none: there is no teacher.
  [[nodiscard]] const std::optional<formats::teacher_record>& teacher() const { return teacher_; }

 private:
  /// Opens the checkpoint at `from`. A checkpoint that the disks of several machines hold is read through `disks`,
  /// which must outlive the source; `disks` is null if there are no such disks. Any other checkpoint is opened by its
  /// format.
  core::result<formats::tensor_source> open(storage::file_system* disks, const std::filesystem::path& from,
                                            const load_options& options) const;
  /// Opens the checkpoint at `from`, as open() does. Error (bad_input): the checkpoint is of another model than the
  /// run's.
  core::result<formats::tensor_source> open_described(storage::file_system* disks, const std::filesystem::path& from,
                                                      const load_options& options) const;
  /// Returns a sentence about frozen parameters that the checkpoint `from` lacks, because its run leaves them out of
  /// checkpoints, and that keep their present values; empty if there are none. Error (mismatch): this run has other
  /// initial weights than the checkpoint's run, or its own checkpoints would leave out frozen parameters that `from`
  /// has.
  [[nodiscard]] core::result<std::string> keep_frozen(const formats::tensor_source& from, const load_options& options,
                                                      resume_time when) const;
  /// Loads those layers of `model.teacher` with which the model begins, if the configuration names any.
  core::result<void> take_layers(opening_watch& watch);

  training_run& run_;
  std::optional<formats::teacher_record> teacher_;
  /// True: a load has failed after it may have changed states, so that the next one must also reset the states that it
  /// does not read.
  bool is_mixed_ = false;
};

}  // namespace troupe::actors
