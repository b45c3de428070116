// Records a run: feeds the telemetry actor and waits for it once, at the end. Owns what of a step is recorded, where
// curves continue, and the limit of unfinished records.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "actors/record_queue.hpp"
#include "actors/run/reports.hpp"
#include "actors/telemetry.hpp"
#include "telemetry/figures/memory_table.hpp"
#include "telemetry/report/recorder.hpp"

namespace troupe::actors {

struct training_run;

/// Longest wait at the end of a run for its files to be written.
inline constexpr std::chrono::seconds closing_patience{60};

class run_recorder {
 public:
  explicit run_recorder(training_run& run) : run_(run) {}
  run_recorder(const run_recorder&) = delete;
  run_recorder& operator=(const run_recorder&) = delete;

  /// Returns the setup of the telemetry actor of the first term.
  telemetry_setup make_telemetry();
  /// Creates the files of the curves unless they exist; session::open_records describes this.
  core::result<void> open();
  /// Continues the curves of the checkpoint at `path`, if they are in the run's folder and are not open yet.
  void continue_curves_of(const std::filesystem::path& path);
  /// Writes no files and records nothing, for a session that must leave nothing behind.
  void record_nothing() { is_open_ = is_closed_ = true; }

  void record(const step_report& r, std::shared_ptr<const std::vector<telemetry::rank_spans>> spans);
  /// Records the validation loss after the steps done so far.
  void record_loss(double loss);
  /// Removes the records of later steps. Call when the run is back at an earlier step.
  void go_back();
  /// Ends the records of the run; session::finish describes this.
  session_records finish(session_ending ending);

  /// Returns a handle that expires once the record of the last step is written or was dropped.
  [[nodiscard]] const std::weak_ptr<const void>& last_step() const { return last_step_; }
  [[nodiscard]] record_queue& queue() { return queue_; }

 private:
  [[nodiscard]] std::vector<telemetry::memory_row> memory_rows() const;
  void log_memory(const std::string& when);

  training_run& run_;
  std::shared_ptr<telemetry::recorder> recorder_;
  record_queue queue_;
  std::shared_ptr<const telemetry::validation_values> last_validation_;
  std::weak_ptr<const void> last_step_;
  double step_seconds_ = 0;
  std::filesystem::path resumed_from_;  // checkpoint whose curves are continued; empty: the run began afresh
  bool is_open_ = false, is_closed_ = false;
};

}  // namespace troupe::actors
