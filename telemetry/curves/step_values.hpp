// Owns the values of one optimizer step and their labels, which are DeepSpeed's names if DeepSpeed has one.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "telemetry/curves/event_record.hpp"
#include "telemetry/spans.hpp"

namespace troupe::telemetry {

/// Values of one step; the x axis of curves is `global_samples`.
struct step_values {
  uint64_t step = 0;                 ///< number of the step, counted from 1
  uint64_t global_samples = 0;       ///< number of samples of all steps up to this one
  uint64_t samples = 0, tokens = 0;  ///< numbers of samples and tokens of this step
  double unix_s = 0;                 ///< Unix time of the step's end
  double seconds = 0;
  double loss = 0, lr = 0, grad_norm = 0, loss_scale = 1;
  bool skipped = false;
  /// Sum over all ranks of a rank's resident bytes (telemetry::memory_row) plus its peak bytes of activations.
  uint64_t memory_bytes = 0;
  /// Mean seconds over the ranks: of the step, with compute busy, with a collective in progress, and with a collective
  /// in progress that no computation hides.
  double step_s = 0, compute_s = 0, communication_s = 0, exposed_s = 0;
  /// Mean seconds over the ranks in which the compute lane was idle although an instruction and a core were ready.
  double control_idle_s = 0;
};

/// Loss over a validation set, after `step` steps.
struct validation_values {
  uint64_t step = 0, global_samples = 0;
  double loss = 0, unix_s = 0;
  std::string set{};     ///< name of the set; empty: the held-out part of the data
  bool is_first = true;  ///< true: the run's first validation set, whose loss is the run's validation loss
};

/// Values that the host program has recorded after `step` steps, each with its name.
struct metric_values {
  uint64_t step = 0, global_samples = 0;
  std::vector<std::pair<std::string, double>> values;
  double unix_s = 0;
};

/// Optional labels that a run writes.
struct label_options {
  bool loss_scale = false;  ///< true: the loss scale is among the written curves (fp16 only)
  bool breakdown = false;   ///< true: times of a step's phases are written; set by wall_clock_breakdown
};

inline constexpr std::string_view validation_label = "Validation/Samples/loss";

/// Returns the label of a validation set's loss: for the set `books` it is `Validation/books/loss`, for the held-out
/// part, whose name is empty, validation_label.
std::string label_of_set(std::string_view set);

/// Begin of the label of a host program's own metric, before its name.
inline constexpr std::string_view metric_label_begin = "Own/Samples/";
/// Largest number of bytes of a metric's name, and of metrics of a run; each has a file of its own.
inline constexpr size_t metric_name_bytes_max = 64, metrics_max = 128;
/// True if a host program's metric may have this name: 1 to metric_name_bytes_max letters, digits and `_-.`, the first
/// a letter or digit.
bool is_metric_name(std::string_view name);

/// All labels of Troupe's own that a run may write, besides those of named validation sets. A run cuts only files with
/// these names, and those of its sets and of metrics.
inline constexpr std::array<std::string_view, 13> all_labels = {"Train/Samples/train_loss",
                                                                "Train/Samples/lr",
                                                                "Train/Samples/grad_norm",
                                                                "Train/Samples/samples_per_s",
                                                                "Train/Samples/tokens_per_s",
                                                                "Train/Samples/memory_bytes",
                                                                "Train/Samples/loss_scale",
                                                                "Train/Samples/elapsed_time_ms_forward",
                                                                "Train/Samples/elapsed_time_ms_backward",
                                                                "Train/Samples/elapsed_time_ms_backward_inner",
                                                                "Train/Samples/elapsed_time_ms_backward_allreduce",
                                                                "Train/Samples/elapsed_time_ms_step",
                                                                validation_label};

/// Returns the values of a step as curves, each with its label; see docs/telemetry.md.
std::vector<curve_value> labelled(const step_values& v, const step_breakdown& times, const label_options& options);

/// Returns one line of steps.jsonl, without its line end.
std::string json_line(const step_values& v, const step_breakdown& times);
std::string json_line(const validation_values& v);
std::string json_line(const metric_values& v);

/// Returns `time (ms) | fwd: 1.00 | bwd: ...` in the format of DeepSpeed's timers. If `who` (the stages of a rank in a
/// pipeline) is given, the line begins with it and ends with the timers of DeepSpeed's pipeline.
std::string breakdown_line(const step_breakdown& mean, const std::string& who = "");

}  // namespace troupe::telemetry
