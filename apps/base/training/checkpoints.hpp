// Owns the checkpoints of a run from the command line: when one is written, which ones are kept, and what a failed
// write causes, also at the end. Leaves writing to the session and the run's beginning to checkpoint_start.hpp.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "actors/session/session.hpp"
#include "apps/base/training/checkpoint_start.hpp"
#include "config/sections/job_config.hpp"

namespace troupe::apps {

/// Statistics of a run's checkpoints: how many were written, failed or were skipped, their bytes and their seconds.
struct checkpoint_counts {
  uint64_t written = 0, failed = 0, skipped = 0;
  uint64_t bytes = 0;
  double seconds = 0;         ///< seconds of all saves, each from its first copy to its commit
  double waited_seconds = 0;  ///< part of `seconds` in which training waited
};

class checkpoints {
 public:
  struct listeners {
    std::function<void(const std::string&)> on_warning;
    std::function<void(const actors::save_report&)> on_written;
  };
  /// The situation in which `after_step` is called.
  enum class moment : uint8_t {
    step,   ///< the run continues with another step
    asked,  ///< another step follows, and a signal or a user has requested a checkpoint
    end,    ///< no step follows: the run has ended
    /// No step follows, because a signal or an error ended the run; if a signal ended it and nothing is due to be
    /// saved, after_step prints a warning
    rescued,
  };

  /// Stores its arguments; `configuration` is written unchanged into every checkpoint.
  checkpoints(const config::job_config& config, std::string configuration, start_wishes wishes, listeners callbacks);

  /// Returns where the run begins; see checkpoint_start::choose. Further error: bad_input for an invalid
  /// `checkpoint.tag`.
  core::result<run_start> choose_start(bool again = false);
  core::result<void> begin(const run_start& start, const actors::session& s);
  /// Called instead of `begin` in a process that takes over the lead from a lost process. If the run's folder has a
  /// checkpoint, the run's last states are saved (keeps_end), because this process does not know whether the lost one
  /// had received a request to save.
  void take_over(const actors::session& s);
  /// Locks the output folder; see checkpoint_start::claim_output.
  core::result<void> claim_output() { return start_.claim_output(callbacks_.on_warning); }

  /// Notes the loss of a step, which was computed with the weights from before the step. Called before `after_step`.
  /// While the newest loss is not finite, nothing is saved and no checkpoint is removed; a checkpoint that is due
  /// meanwhile is written once a loss is finite again. The first finite loss of a run that has resumed proves the
  /// checkpoint that it resumed from: older ones that `checkpoint.keep_last` does not keep are removed.
  void note_loss(uint64_t step, double loss);
  /// Notes the loss of an evaluation after `step`. A loss that is not finite prevents saves as one passed to
  /// note_loss() does, because it shows that the update of `step` has broken the weights. A finite loss proves these
  /// weights.
  void note_evaluation(uint64_t step, double loss);
  /// Notes that the run has failed on numbers that are not finite, or on a spike, after the newest loss that it noted.
  void note_failure();
  /// Returns the error with which the run ends if the newest loss is not finite: since which step that is so, and the
  /// newest checkpoint from before. A checkpoint that has the weights of that loss is named as unusable. Returns
  /// nothing if the newest loss is finite.
  [[nodiscard]] std::optional<core::error> broken() const;
  /// Returns the newest checkpoint from before the loss that is not finite; none if none is left, or if `broken`
  /// returns nothing.
  [[nodiscard]] std::optional<own_checkpoint> newest_unbroken() const;

  /// Called between steps. Starts a checkpoint if one is due and the current step has none. At the end of the run,
  /// waits until no save is in progress, and retries a failed last save for `checkpoint.retry_for`; if it fails for
  /// good, `unsaved` returns the error. A checkpoint whose tag names an existing one replaces it only if the weights
  /// have a finite loss, which a forward pass computes; if no loss can be computed, the new checkpoint's name is the
  /// step's instead of the tag. Returns an error if `checkpoint.on_error` is stop, or if the session has ended; any
  /// other failed save is counted and causes a warning.
  core::result<void> after_step(actors::session& s, moment why);
  /// Called after the last save and evaluation. If no evaluation has computed the loss of the last weights, computes it
  /// with a forward pass; does nothing if no checkpoint of this run has these weights, unless `even_unsaved` is true.
  /// Notes a loss that is not finite, so that `broken` returns an error. A finite loss removes the checkpoints that
  /// `checkpoint.keep_last` does not keep. Errors: the pass has ended the run.
  core::result<void> prove_last(actors::session& s, bool even_unsaved);
  /// True if the last states of the run are saved: checkpoints are configured, one was requested, or the run resumed
  /// from a checkpoint of its own.
  [[nodiscard]] bool keeps_end() const { return when_.is_on() || asked_; }

  /// Returns why the run's last checkpoint could not be written, and the newest step that has a checkpoint; nothing if
  /// no last checkpoint has failed. Also set if another error ended the run and its states, which were intact, could
  /// not be saved.
  [[nodiscard]] const std::optional<core::error>& unsaved() const { return unsaved_; }
  /// Returns a sentence such as "step 10 is safe in 'out/checkpoints/step-00000010'", read from the folder at the call.
  /// If that checkpoint has the weights with which the run failed, says so, and names the newest one from before.
  [[nodiscard]] std::string what_is_safe() const;

  /// Notes that the run has returned to the states of the earlier step `step`, e.g. after a loss spike; `has_one` is
  /// true if a checkpoint of that step exists.
  void went_back(uint64_t step, bool has_one);

  /// Handles the report of an ended save; called by session_hooks::on_saved.
  void note_save(const actors::save_report& r);

  [[nodiscard]] const checkpoint_counts& counts() const { return counts_; }

 private:
  using sentence_of = std::function<std::string(uint64_t step, const std::string& folder)>;

  [[nodiscard]] bool is_due(uint64_t step, moment why) const;
  /// True if the tag of a checkpoint of `step` names an existing one.
  [[nodiscard]] bool replaces(uint64_t step) const;
  core::result<actors::save_request> prepare(uint64_t step);
  core::result<void> begin_save(actors::session& s);
  core::result<void> save(actors::session& s);
  core::result<void> save_last(actors::session& s, moment why);
  core::result<void> end_saves(actors::session& s);
  core::result<void> failed(uint64_t step, const core::error& e);
  void withhold(uint64_t step, moment why);
  void note_bad(uint64_t since, uint64_t weights, double loss, const char* what);
  /// Computes a forward pass unless a loss of the current weights is known. Errors: the pass has ended the run.
  core::result<void> prove(actors::session& s);
  void remove_older_than_begin();
  /// Removes the checkpoints that `checkpoint.keep_last` does not keep, if `latest` names the one of `step`.
  void remove_older_than(uint64_t step);
  /// Returns a clause such as "the loss has been nan since step 4". Requires a newest loss that is not finite.
  [[nodiscard]] std::string bad_loss_text() const;
  /// Returns the result of `sentence`, called with the step and folder of the newest checkpoint, or a sentence that no
  /// checkpoint can be read.
  [[nodiscard]] std::string newest(const sentence_of& sentence) const;
  /// Returns newest(sentence); if that checkpoint has weights of a loss that is not finite, a sentence that says so and
  /// names the newest one from before.
  [[nodiscard]] std::string newest_good(const sentence_of& sentence) const;

  checkpoint_start start_;
  config::checkpoint_section when_;
  std::string configuration_;
  listeners callbacks_;
  checkpoint_counts counts_;
  std::optional<uint64_t> saved_step_;  ///< number of the newest step that has a checkpoint or from which the run began
  std::optional<core::error> failure_;  ///< error of an asynchronous checkpoint, if `checkpoint.on_error` ends the run
  std::optional<core::error> missing_;  ///< reason why the checkpoint that was started last is missing
  std::optional<core::error> unsaved_;
  /// true: a user or signal has requested a checkpoint, or the run has resumed from a checkpoint of its own
  bool asked_ = false;
  /// true: a checkpoint that was due is postponed, because another is in progress or the loss is not finite
  bool waiting_ = false;
  bool blocking_ = false;  ///< true: training waits for the checkpoint in progress
  bool ending_ = false;    ///< true: the run's last checkpoint is being written
  /// A sequence of consecutive steps, up to the newest one, whose losses are not finite.
  struct bad_losses {
    uint64_t since = 0;
    uint64_t weights = 0;  ///< number of steps done when the weights produced the first loss that is not finite
    double newest = 0;
    const char* what = "";    ///< kind of loss, for messages
    bool has_failed = false;  ///< true: the run has ended with an error about these losses
    bool told = false;        ///< true: a warning has reported a checkpoint that was omitted because of the losses
  };
  std::optional<bad_losses> bad_;
  uint64_t loss_step_ = 0;                ///< number of the newest step with a loss, or at which the run began
  std::optional<uint64_t> proved_step_;   ///< newest step after which a loss of the weights was computed and finite
  std::optional<uint64_t> resumed_step_;  ///< step of the run's own checkpoint that it began from, until it is proved
  std::optional<uint64_t> told_step_;     ///< step of the last save report that this object received
  std::optional<uint64_t> failed_step_;   ///< newest step whose checkpoint was counted as failed
  int64_t last_begin_ns_ = 0;             ///< time, by core::now_ns(), at which the run or its newest checkpoint began
};

}  // namespace troupe::apps
