// Owns the curve files of a run: CSV as DeepSpeed's csv_monitor, TensorBoard event files, JSON lines, the runs of
// MLflow and W&B. Leaves their content to step_values.hpp and recorder.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "telemetry/curves/append_file.hpp"
#include "telemetry/curves/curve_claim.hpp"
#include "telemetry/curves/event_record.hpp"
#include "telemetry/curves/mlflow_run.hpp"
#include "telemetry/curves/tracked_run.hpp"
#include "telemetry/curves/wandb_run.hpp"

namespace troupe::telemetry {

/// Paths of the curve files of a run. If a path is empty, files of that kind are not written.
struct curve_options {
  std::filesystem::path csv_folder, events_folder, json_lines_file;
  /// nullopt for a new run. For a resumed run: number of samples (of all steps and ranks) that the run had used at its
  /// checkpoint. Rows up to that number stay in the curve files, later rows are removed, and new rows are appended.
  std::optional<uint64_t> goes_on_after{};
  std::filesystem::path run{};  ///< output folder of the run, which identifies the run in the reservation of a CSV
                                ///< folder; empty: none
  /// True: the run continues in this process after the loss of the process that has written its curves.
  bool took_over = false;
  std::optional<mlflow_options> mlflow{};      ///< nullopt: no run in MLflow's store is written
  std::optional<wandb_options> wandb{};        ///< nullopt: no run of W&B is written
  std::vector<std::string> validation_sets{};  ///< names of validation sets whose losses the run writes
};

/// Returns the name of a label's CSV file as DeepSpeed names it: `Train/Samples/lr` is in `Train_Samples_lr.csv`; '/'
/// and ' ' become '_'.
std::string csv_file_name(std::string_view label);
/// Returns the header row of a curve's CSV file, such as `step,lr`.
std::string csv_header(std::string_view label);

class curve_files {  ///< writes the output files of a run's curves
 public:
  /// Creates folders and files. A new run renames JSON lines and CSV of an earlier run, as append_file::create does. An
  /// event file is always new; in a resumed run it begins with the mark that makes tensorboard ignore older values from
  /// the resumed step on. A new run is a new run of MLflow and W&B, too; a resumed run continues theirs. On success
  /// every folder has been written to, and the folder of CSV files is reserved for this run (curve_claim.hpp). Errors:
  /// io, no_space; bad_input if a file with a curve's name is not a curve, and then nothing is created or changed, or
  /// if the folder of CSV files belongs to another run. An error begins with the configuration key that requests the
  /// file. Files with other names are not touched.
  static core::result<curve_files> open(const curve_options& options, double unix_s);

  /// Removes the values of steps that a running job repeats because it went back to a checkpoint: rows beyond
  /// `global_samples` are removed from CSV files and JSON lines. With 0 the run starts from its first step, and the
  /// next write renames these files as for a new run, and new runs of MLflow and W&B begin. The event file receives an
  /// event that makes tensorboard ignore the values. Errors: io, no_space; the next write retries.
  core::result<void> go_back(double unix_s, uint64_t global_samples);

  /// Writes values of curves at x = `global_samples`. Values that are not finite are stored as `nan` or `inf`.
  core::result<void> write(double unix_s, uint64_t global_samples, std::span<const curve_value> values);

  /// Appends `json` (one JSON object without line end) and a line end to the JSON-lines file.
  core::result<void> write_line(const std::string& json);

  /// Writes all records that could not be written before, and marks the runs of MLflow and W&B as ended. Nothing is
  /// written afterwards.
  core::result<void> end(double unix_s, verdict how);

  /// Writes all records that could not be written before. Returns the error of the first file that cannot be written.
  core::result<void> flush();

  /// True if every record is in its file: none was dropped, and none waits for a full disk.
  [[nodiscard]] bool complete() const;
  /// True if an open file was removed, so that its records cannot be written again.
  [[nodiscard]] bool has_removed_file() const;

 private:
  [[nodiscard]] core::result<append_file> make(const std::filesystem::path& file) const;

  std::filesystem::path csv_folder_, lines_file_;
  std::vector<std::string> validation_sets_;  ///< curve_options::validation_sets
  std::optional<curve_claim> claim_;          ///< reservation of csv_folder_
  bool goes_on_ = false;
  std::map<std::string, append_file, std::less<>> csv_;  ///< CSV file of each curve; key: the curve's label
  std::optional<append_file> events_, lines_;
  std::optional<mlflow_run> mlflow_;
  std::optional<wandb_run> wandb_;
  uint64_t num_lost_ = 0;  ///< number of records whose file could not be created, or that were lost on a full disk
};

}  // namespace troupe::telemetry
