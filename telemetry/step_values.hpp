// The values of one optimizer step and their labels. DeepSpeed's labels where it has one.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "telemetry/event_record.hpp"
#include "telemetry/spans.hpp"

namespace troupe::telemetry {

/// Numbers of one step; the x axis of curves is `global_samples`.
struct step_values {
  uint64_t step = 0;                 ///< from 1
  uint64_t global_samples = 0;       ///< of all steps up to this one
  uint64_t samples = 0, tokens = 0;  ///< of this step
  double unix_s = 0;                 ///< when it ended
  double seconds = 0;
  double loss = 0, lr = 0, grad_norm = 0, loss_scale = 1;
  bool skipped = false;
  uint64_t memory_bytes = 0;                                             ///< resident and activations' peak, all ranks
  double step_s = 0, compute_s = 0, communication_s = 0, exposed_s = 0;  ///< from the spans, means over ranks
  double control_idle_s = 0;  ///< compute stood idle though it could have started and a core was free
};

/// A loss of the validation part, after `step` steps.
struct validation_values {
  uint64_t step = 0, global_samples = 0;
  double loss = 0, unix_s = 0;
};

/// Which of the labels a run writes.
struct label_options {
  bool loss_scale = false;  ///< fp16
  bool breakdown = false;   ///< wall_clock_breakdown
};

inline constexpr std::string_view validation_label = "Validation/Samples/loss";

/// Every label that any run writes: only files of these names are a run's to cut.
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

/// The values of a step under their labels, see docs/telemetry.md.
std::vector<curve_value> labelled(const step_values& v, const step_breakdown& times, const label_options& options);

/// One line of steps.jsonl.
std::string json_line(const step_values& v, const step_breakdown& times);
std::string json_line(const validation_values& v);

/// `time (ms) | fwd: 1.00 | bwd: ...`, as DeepSpeed's timers print it. With `who`, the stages of a rank in a pipeline,
/// they come first, and the timers of DeepSpeed's pipeline last.
std::string breakdown_line(const step_breakdown& mean, const std::string& who = "");

}  // namespace troupe::telemetry
