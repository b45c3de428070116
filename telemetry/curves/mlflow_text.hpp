// Encodes the files of MLflow's file store byte for byte: metadata of experiments and runs, rows of metrics. Pure
// functions; leaves folders to mlflow_run.hpp. Source: mlflow/store/tracking/file_store.py, as version 3.17 writes and
// reads the files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "telemetry/curves/tracked_run.hpp"

namespace troupe::telemetry {

/// Facts of a run in MLflow's store.
struct mlflow_facts {
  std::string id, experiment_id, name, user;
  std::filesystem::path folder;  ///< absolute folder of the run
  int64_t begin_ms = 0;          ///< Unix time at which it began
};

/// Returns the text of the `meta.yaml` of an experiment whose absolute folder is `folder`.
std::string mlflow_experiment_text(std::string_view id, std::string_view name, const std::filesystem::path& folder,
                                   int64_t unix_ms);

/// Returns the name in the `meta.yaml` of an experiment; nullopt if it has none that can be read.
std::optional<std::string> mlflow_experiment_name(std::string_view text);

/// Returns the text of the `meta.yaml` of a run that has begun.
std::string mlflow_run_text(const mlflow_facts& run);

/// Returns the text of the `meta.yaml` of a run with the mark that it runs.
std::string mlflow_resumed_text(std::string_view text);
/// Returns the text of the `meta.yaml` of a run with the mark that it ended.
std::string mlflow_ended_text(std::string_view text, verdict how, int64_t unix_ms);

/// Returns the value of the line `key: value` of a `meta.yaml`; empty if it has no such line.
std::string_view mlflow_value(std::string_view text, std::string_view key);

/// Returns a metric's row with its line end: time, value, step. MLflow reads `nan` and `inf`.
std::string mlflow_row(int64_t unix_ms, double value, uint64_t step);
/// Returns the step of a metric's row, given without its line end; nullopt for another text.
std::optional<uint64_t> mlflow_place(std::string_view row);

/// Returns the text of a parameter's file: a setting's YAML text, without quotes that stand around it alone.
std::string mlflow_parameter(std::string_view yaml);

/// True if the text can be the name of a parameter's file: letters, digits and `_-./`, without a part that is empty or
/// begins with a dot.
bool is_mlflow_name(std::string_view name);

}  // namespace troupe::telemetry
