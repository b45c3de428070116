// The checkpoints of a run from the command line: when one is written, which stay, what happens where one cannot be
// written, also at the end. The session writes them; where a run begins is checkpoint_start.hpp's.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "actors/session/session.hpp"
#include "apps/base/checkpoint_start.hpp"
#include "config/sections/job_config.hpp"

namespace troupe::apps {

/// Of a run, or of one checkpoint.
struct checkpoint_counts {
  uint64_t written = 0, failed = 0, skipped = 0;
  uint64_t bytes = 0;
  double seconds = 0;         ///< from the first copy to the commit
  double waited_seconds = 0;  ///< of these, those in which training stood still
};

struct checkpoint_event {  ///< one checkpoint that is over
  uint64_t step = 0;
  std::filesystem::path folder;  ///< empty where it failed
  uint64_t bytes = 0;
  double seconds = 0, waited_seconds = 0;
};

class checkpoints {
 public:
  struct listeners {
    std::function<void(const std::string&)> on_warning;
    std::function<void(const checkpoint_event&)> on_written;
  };
  /// Why `after_step` is called.
  enum class moment : uint8_t {
    step,     ///< another one follows
    asked,    ///< another one follows, and somebody wants a checkpoint now
    end,      ///< none follows
    rescued,  ///< none follows, somebody ended the run from outside: as `end`, and said where nothing is saved
  };

  /// `configuration` goes into every checkpoint as it is.
  checkpoints(const config::job_config& config, std::string configuration, start_wishes wishes, listeners heard);

  /// See checkpoint_start. Errors: also bad_input for a `checkpoint.tag` that is none.
  core::result<run_start> choose_start(bool again = false);
  core::result<void> begin(const run_start& start, const actors::session& s);
  /// See checkpoint_start.
  core::result<void> claim_output() { return start_.claim_output(heard_.on_warning); }

  /// Between steps: begins one when it is time, unless this step has one; at the end, none is under way any more. An
  /// error where `checkpoint.on_error` is stop, and where the session is over; else a failure is a warning and counted.
  /// The last one is tried again for `checkpoint.retry_for`; `unsaved` says that it could not be written.
  core::result<void> after_step(actors::session& s, moment why);

  /// The checkpoint that the run should have ended with could not be written: why not, and which step is safe. Also of
  /// a run that another error ends, whose states were whole.
  [[nodiscard]] const std::optional<core::error>& unsaved() const { return unsaved_; }
  /// "step 10 is safe in 'out/checkpoints/step-00000010'", as the folder says at this moment.
  [[nodiscard]] std::string what_is_safe() const;

  /// The run is back at `step`, of which there is a checkpoint where `has_one`.
  void went_back(uint64_t step, bool has_one);

  /// For session_hooks::on_saved.
  void heard(const actors::save_report& r);

  [[nodiscard]] const checkpoint_counts& counts() const { return counts_; }

 private:
  [[nodiscard]] bool is_due(uint64_t step, moment why) const;
  [[nodiscard]] std::string tag_of(uint64_t step) const;
  core::result<actors::save_request> prepare(uint64_t step);
  core::result<void> begin_save(actors::session& s);
  core::result<void> save(actors::session& s);
  core::result<void> save_last(actors::session& s, moment why);
  core::result<void> end_saves(actors::session& s);
  core::result<void> failed(uint64_t step, const core::error& e);

  checkpoint_start start_;
  config::checkpoint_section when_;
  std::string configuration_;
  listeners heard_;
  checkpoint_counts counts_;
  std::optional<uint64_t> saved_step_;  ///< the last that has one, or was begun from
  std::optional<core::error> failure_;  ///< of one that was written beside training, where it ends the run
  std::optional<core::error> missing_;  ///< why the newest that was begun is not there
  std::optional<core::error> unsaved_;
  bool asked_ = false;                  ///< somebody wanted one, or the run resumes from one of its own
  bool waiting_ = false;                ///< one is due and another under way
  bool blocking_ = false;               ///< training stands still for the one under way
  bool ending_ = false;                 ///< the last one is being written
  std::optional<uint64_t> told_step_;    ///< of the last call of `heard`
  std::optional<uint64_t> failed_step_;  ///< the last that was counted as failed
  int64_t last_begin_ns_ = 0;           ///< of the run or of the last checkpoint
};

}  // namespace troupe::apps
