// Records a run: sends records of steps to the telemetry actor, and waits for it once, at the end of the run. Owns what
// is recorded of a step, whether curve files are continued, and the limit of unhandled records.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "actors/record_queue.hpp"
#include "actors/run/reports.hpp"
#include "actors/telemetry.hpp"
#include "telemetry/curves/step_values.hpp"
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
  /// Creates the curve files, or opens those that the run continues, unless that was done; session::open_records
  /// describes this.
  core::result<void> open();
  /// If the curve files are not open yet, makes open() continue those of the run that wrote the checkpoint at `path`,
  /// if that is in the run's folder.
  void continue_curves_of(const std::filesystem::path& path);

  void record(const step_report& r, std::shared_ptr<const std::vector<telemetry::rank_spans>> spans);
  /// Records `loss`, the loss over a validation set after the steps done so far. `set`: the set's name, empty for the
  /// held-out part of the sources; `is_first`: the set is the run's first one, whose loss is the run's.
  void record_loss(double loss, const std::string& set, bool is_first);
  /// Implements session::record.
  core::result<void> record_metric(std::string_view name, double value);
  /// Removes the records of steps after the present one. Call when the run has returned to an earlier step.
  void go_back();
  /// Ends the records of the run; session::finish describes this.
  session_records finish(session_ending ending);

  /// Returns a weak pointer that expires when the record of the last step has been handled or dropped.
  [[nodiscard]] const std::weak_ptr<const void>& last_step() const { return last_step_; }
  [[nodiscard]] record_queue& queue() { return queue_; }

 private:
  /// Sends the metrics of one step to telemetry, if the curves are open.
  void send_metrics();
  [[nodiscard]] std::vector<telemetry::memory_row> memory_rows() const;
  void log_memory(const std::string& when);

  training_run& run_;
  std::shared_ptr<telemetry::recorder> recorder_;
  record_queue queue_;
  std::shared_ptr<const telemetry::validation_values> last_validation_;
  std::weak_ptr<const void> last_step_;
  std::map<std::string, double, std::less<>> metrics_;  // recorded for `metrics_at_` and not sent yet
  telemetry::metric_values metrics_at_;                 // the step of `metrics_`, without values
  std::set<std::string, std::less<>> metric_names_;     // names of all metrics of the run
  double step_seconds_ = 0;
  std::filesystem::path resumed_from_;  // checkpoint that the run resumed from; empty: none
  bool is_open_ = false, is_closed_ = false;
};

}  // namespace troupe::actors
