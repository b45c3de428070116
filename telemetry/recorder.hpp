// Everything a run records about itself, in one place: takes steps and validations, writes curves as they come, and
// sums up for the end. Owned by one thread at a time; the telemetry actor feeds it, so that no lane waits for a file.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "telemetry/curve_files.hpp"
#include "telemetry/report.hpp"
#include "telemetry/step_values.hpp"

namespace troupe::telemetry {

/// Options of recording. Text for people goes to `log`, a line each, without a line end; trouble to `warn`.
struct recorder_options {
  curve_options curves;
  label_options labels;
  run_facts facts;
  bool report = false;         ///< keep what a report needs
  uint64_t report_step = 0;    ///< whose lanes it draws, from 0; where the run is shorter, its last
  bool communication = false;  ///< comms_logger.enabled
  bool communication_verbose = false;
  communication_options collectives;
  std::optional<flops_table_options> flops;  ///< flops_profiler.enabled
  bool profile = false;                      ///< keep the times of units (run_records::profile)
  uint64_t print_every = 0;                  ///< wall_clock_breakdown: steps between two lines; 0: none
  std::function<void(const std::string&)> log, warn;
};

class recorder {  ///< all that a run writes about itself
 public:
  explicit recorder(recorder_options options);

  /// Makes the folders and files of curves; see curve_options::goes_on_after. Errors: io, no_space; nothing has run
  /// yet.
  core::result<void> open(double unix_s, std::optional<uint64_t> goes_on_after = std::nullopt);

  /// The run is where it was after `step`, as curve_files::go_back has it: nothing that was recorded beyond is on a
  /// curve any more. Sums over all steps, as of tokens and seconds, keep what was done.
  void go_back(double unix_s, uint64_t step, uint64_t global_samples);
  void step(const step_values& v, std::vector<rank_spans> spans);
  void validation(const validation_values& v);

  /// The flops profiler's text, once its step has passed; the caller writes it to a file or to the log.
  [[nodiscard]] const std::string& flops_text() const { return flops_text_; }

  /// Sums up; nothing may follow but `report`. `num_not_recorded`: steps and validations that never came here.
  run_records close(run_end end, uint64_t num_not_recorded);

  /// The page, once closed; empty where none was wanted. `files`: names beside it.
  [[nodiscard]] std::string report(std::vector<std::string> files);

 private:
  void note(const core::result<void>& did);
  void log(const std::string& lines) const;
  void break_down(uint64_t step, std::span<const rank_spans> spans);
  void profile(const step_values& v, const std::vector<rank_spans>& spans);
  void keep_for_report(const step_values& v, std::vector<rank_spans> spans);
  void follow_cut(std::span<const rank_spans> spans);

  recorder_options options_;
  std::optional<curve_files> files_;  ///< once opened
  run_curves curves_;
  communication_log communication_;
  std::shared_ptr<const core::model_table> cut_;  ///< of the latest step's ranks
  profile_sums profile_;
  instruction_times times_;  // of a pipeline, and where a profile is wanted
  std::string flops_text_;
  std::vector<step_breakdown> printed_;  // [of stage_leaders]: sums since the last line
  uint64_t num_printed_ = 0;
  std::vector<rank_spans> drawn_;
  report_data data_;
  bool warned_ = false;
};

}  // namespace troupe::telemetry
