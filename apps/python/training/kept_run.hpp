// Keeps the folder of a run that `troupe.train` trains as `troupe train` does: its locks, configuration, checkpoints,
// sample and records. Independent of Python; leaves the steps to the caller.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/session/session.hpp"
#include "apps/base/training/checkpoints.hpp"
#include "apps/base/training/text_sample.hpp"
#include "config/load.hpp"
#include "core/error.hpp"

namespace troupe::apps {

struct kept_wishes {
  bool fresh = false;                     ///< true: checkpoints of the run's own are set aside, as by --fresh
  bool is_resume_named = false;           ///< true: the caller names the checkpoint to begin from, as by --resume
  std::filesystem::path export_folder{};  ///< folder of Hugging Face for the trained weights; empty: none
};

/// The numbers of a run of `troupe.train`, as known at its end.
struct run_summary {
  uint64_t steps = 0;    ///< number of steps done, those before the run was resumed included
  uint64_t trained = 0;  ///< number of steps that this call has done
  uint64_t skipped = 0;  ///< number of these that updated nothing, since a gradient overflowed
  std::optional<double> loss{};
  /// Name and loss of each validation set at the end (session::validation_sets); empty if there is none, or if the
  /// evaluation was ended early.
  std::vector<std::pair<std::string, double>> validation_losses{};
  double seconds = 0;
  std::filesystem::path folder{}, checkpoint{}, exported{}, report{};  ///< empty: there is none
  std::string sample{}, no_sample{};                                   ///< the text, or why it is missing
};

class kept_run {
 public:
  /// Stores its arguments; `loaded` must outlive this object. `warn` receives each warning.
  kept_run(const config::loaded& loaded, kept_wishes wishes, std::function<void(const std::string&)> warn);

  /// Returns where the run begins: the run's own newest checkpoint, another one, or step 0 (an empty path). Errors:
  /// those of checkpoints::choose_start.
  core::result<actors::resume_choice> choose_start();
  /// Adds a remedy to the error of opening a session at the beginning that choose_start() has returned.
  [[nodiscard]] core::error explained(core::error why) const;
  /// Prepares the folder for the opened session: locks it, writes what describes the run, creates the curve files and
  /// checks the target of the export. A refused run changes nothing.
  core::result<void> begin(actors::session& s);

  void note_step(const actors::step_report& r, const actors::session& s);
  void note_evaluation(uint64_t step, double loss);
  void note_save(const actors::save_report& r) { saved_.note_save(r); }

  /// Called between two steps: begins a checkpoint that is due, or that `is_asked` for. Errors: those of
  /// checkpoints::after_step.
  core::result<void> between_steps(actors::session& s, bool is_asked);
  /// Ends the run after its last step: saves, evaluates, generates the sample, exports, and writes the records. If
  /// `goes_on` returns false, the evaluation ends early. Errors: the last checkpoint could not be written; the loss is
  /// not finite, or nothing was trained; those of the session.
  core::result<run_summary> end(actors::session& s, const std::function<bool()>& goes_on);
  /// Ends the run before its last step, because of `failure`, or on request (none): saves the states if checkpoints are
  /// kept and the states are sound, and writes the records. What goes wrong is a warning.
  void leave(actors::session& s, const std::optional<core::error>& failure);

 private:
  core::result<void> end_evaluation(actors::session& s, const std::function<bool()>& goes_on);
  core::result<void> export_weights(actors::session& s);
  [[nodiscard]] core::result<void> check_export_folder(const actors::session& s) const;

  const config::loaded& loaded_;
  const config::job_config& config_;
  kept_wishes wishes_;
  std::function<void(const std::string&)> warn_;
  run_summary summary_;
  int64_t begin_ns_ = 0;
  checkpoints saved_;
  run_start start_;
  text_sample sample_;
};

}  // namespace troupe::apps
