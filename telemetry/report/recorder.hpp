// Owns everything that a run records about itself: receives steps and validations, writes curves directly, and sums up
// at the end. One thread at a time owns the recorder; the telemetry actor feeds it, so that no lane waits for a file.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "telemetry/curves/curve_files.hpp"
#include "telemetry/curves/step_values.hpp"
#include "telemetry/instruction_times.hpp"
#include "telemetry/report/report.hpp"

namespace troupe::telemetry {

/// Options of recording. `log` receives lines of text for the user, one per call without a line end; `warn` receives
/// errors.
struct recorder_options {
  curve_options curves;
  label_options labels;
  run_facts facts;
  bool report = false;         ///< true: the data for a report is kept
  uint64_t report_step = 0;    ///< the step whose lanes the report draws, from 0; a shorter run draws its last step
  bool communication = false;  ///< true: collectives are summed up; key: comms_logger.enabled
  bool communication_verbose = false;
  communication_options collectives;
  std::optional<flops_table_options> flops;  ///< options of the flops profiler; nullopt: it is off
  bool profile = false;                      ///< true: the times of units are kept for run_records::profile
  uint64_t print_every = 0;                  ///< number of steps between two lines of timers in the log; 0: no lines
  std::function<void(const std::string&)> log, warn;
};

class recorder {  ///< writes all records of a run: curves, logs of timers and collectives, the report page; used by one
                  ///< thread at a time
 public:
  explicit recorder(recorder_options options);

  /// Creates the folders and files of curves before the run starts. `goes_on_after`: number of global samples after
  /// which a resumed run continues its curves. `took_over`: another process of the job, which was lost, has written
  /// them. Errors: those of curve_files::open().
  core::result<void> open(double unix_s, std::optional<uint64_t> goes_on_after = std::nullopt, bool took_over = false);

  /// Called when the run continues from a checkpoint after `step`: removes values of later steps from the curves and
  /// their files. Sums over all steps, such as tokens and seconds, still include the removed steps.
  void go_back(double unix_s, uint64_t step, uint64_t global_samples);
  void step(const step_values& v, std::vector<rank_spans> spans);
  void validation(const validation_values& v);
  void metrics(const metric_values& v);  ///< records the host program's own metrics, whose names are valid

  /// Returns the flops profiler's text once its step has passed; the caller writes it to a file or to the log.
  [[nodiscard]] const std::string& flops_text() const { return flops_text_; }

  /// Sums up the run and closes its files; only `report` may be called afterwards. `num_not_recorded`: steps and
  /// validations that never reached the recorder.
  run_records close(run_end end, uint64_t num_not_recorded);

  /// Returns the report page after close(); empty if no report is wanted. `files`: names of files in the page's folder.
  [[nodiscard]] std::string report(std::vector<std::string> files);

 private:
  void note(const core::result<void>& did);
  void log(const std::string& lines) const;
  void break_down(uint64_t step, std::span<const rank_spans> spans);
  void profile(const step_values& v, const std::vector<rank_spans>& spans);
  void keep_for_report(const step_values& v, std::vector<rank_spans> spans);
  void follow_cut(std::span<const rank_spans> spans);

  recorder_options options_;
  std::optional<curve_files> files_;  ///< files of the curves; nullopt until open() has succeeded
  run_curves curves_;
  communication_log communication_;
  std::shared_ptr<const core::model_table> cut_;  ///< model table of the latest step's plans; changes with the split
  profile_sums profile_;
  instruction_times times_;  // times of instructions; recorded in a pipeline, or if a profile is requested
  std::string flops_text_;
  // sums of the times of `num_printed_` steps, one entry per rank of stage_leaders(); cleared when a line is printed
  std::vector<step_breakdown> printed_;
  uint64_t num_printed_ = 0;
  std::vector<rank_spans> drawn_;
  report_data data_;
  bool warned_ = false;
};

}  // namespace troupe::telemetry
