// Owns one run in an MLflow file store: its folder below the experiment's, a file per metric, parameter and tag. Leaves
// the bytes of these files to mlflow_text.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "telemetry/curves/append_file.hpp"
#include "telemetry/curves/event_record.hpp"
#include "telemetry/curves/tracked_run.hpp"

namespace troupe::telemetry {

/// The place of a run in a file store.
struct mlflow_options {
  std::filesystem::path store;  ///< folder of experiments, `mlruns`
  std::string experiment = "Default";
  std::filesystem::path run;  ///< output folder of the run, by which a resumed run finds its folder in the store
  tracked_run about;
};

class mlflow_run {  ///< writes a run's curves as MLflow's own client does; used by one thread at a time
 public:
  /// Creates the store and the experiment unless they exist, and a new run in it. If `goes_on_after` is given,
  /// continues the newest run of the same output folder instead: values beyond that many global samples are removed,
  /// and later ones appended. A store without such a run gets a new one. Errors: io, no_space.
  static core::result<mlflow_run> open(const mlflow_options& options, double unix_s,
                                       std::optional<uint64_t> goes_on_after);

  /// Removes values beyond `global_samples`. With 0 the run so far is marked as ended, and a new one begins.
  core::result<void> go_back(double unix_s, uint64_t global_samples);
  /// Writes values of metrics at step `global_samples`; a metric's name is its label.
  core::result<void> write(double unix_s, uint64_t global_samples, std::span<const curve_value> values);
  /// Writes all values that could not be written before.
  core::result<void> flush();
  /// Marks the run as ended.
  core::result<void> end(double unix_s, verdict how);

  [[nodiscard]] bool complete() const;          ///< true if every value is in its file
  [[nodiscard]] bool has_removed_file() const;  ///< true if an open file was removed
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  explicit mlflow_run(mlflow_options options) : options_(std::move(options)) {}
  core::result<void> find_experiment(int64_t unix_ms);
  core::result<void> begin(int64_t unix_ms);
  core::result<bool> go_on(uint64_t global_samples);
  core::result<void> cut(uint64_t global_samples);
  core::result<void> put_settings(bool is_new);
  [[nodiscard]] core::result<append_file> open_metric(std::string_view label) const;

  mlflow_options options_;
  std::string experiment_id_;
  std::filesystem::path folder_;  ///< folder of the run
  std::map<std::string, append_file, std::less<>> metrics_;
  uint64_t num_lost_ = 0;  ///< number of values whose file could not be created, or that were lost on a full disk
};

}  // namespace troupe::telemetry
