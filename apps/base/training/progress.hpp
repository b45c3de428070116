// Formats what a training run shows: a progress bar on a terminal, plain lines elsewhere, JSON lines on request. Makes
// no decisions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/session/session.hpp"
#include "apps/base/training/checkpoints.hpp"
#include "apps/base/training/foretold.hpp"

namespace troupe::apps {

enum class output_style : uint8_t { bar, lines, json, quiet };

/// Prints a log line that the configuration requests, such as one of DeepSpeed's loggers. Prints to stderr if the style
/// is JSON, and nothing if it is quiet.
void log_line(output_style style, const std::string& line);

/// Returns a line of JSON that reports a slow link: the event `slow_link`.
std::string slow_link_json(const actors::slow_link_report& x);

class progress {
 public:
  /// Stores its arguments. `flops_per_token` counts forward and backward; `loss_unit`: nats/byte, nats/token.
  progress(output_style style, uint64_t total_steps, double flops_per_token, uint64_t lines_every,
           std::string loss_unit);
  /// Sets the peak rate, in operations per second of all ranks together, for the displayed model-FLOPs utilisation; 0:
  /// no utilisation is displayed.
  void use_peak(double flops) { peak_flops_ = flops; }

  /// True if the last steps exceeded the peak rate of use_peak(), which is too low if other programs used the machine
  /// during its measurement.
  [[nodiscard]] bool beyond_peak() const;
  /// Returns "MFU 60%" for the last steps; "MFU unknown" beyond the peak; empty if no peak is known.
  [[nodiscard]] std::string use_text() const;

  void step(const actors::step_report& r, uint64_t memory_bytes);
  /// Reports, only in JSON, a step that was repeated after a rank was lost.
  void step_again(const actors::step_report& r);
  /// Reports, only in JSON output, that a further term of the job has begun.
  void term(const actors::term_report& t);
  /// Reports, only in JSON, that a link between machines has become slow; other styles show a warning instead.
  void slow_link(const actors::slow_link_report& x);
  /// Shows the loss of a validation set; `set`: its name, empty for the held-out part of the data.
  void evaluation(uint64_t step, double loss, const std::string& set);
  void checkpoint(const actors::save_report& e);
  void spike(const actors::loss_spike& s);
  /// Ends the bar's line, so that ordinary output can follow.
  void finish_line();

 private:
  output_style style_;
  uint64_t total_, every_;
  double flops_per_token_, peak_flops_ = 0;
  std::string loss_unit_;
  double tokens_per_s_ = 0;  // tokens per second, smoothed over steps
  double seconds_ = 0;
  uint64_t seen_ = 0;
  uint64_t counted_ = 0;  // tokens whose loss counted in the steps of this call of the program
  bool open_line_ = false;
};

/// Returns a loss spike as one line of text.
std::string spike_sentence(const actors::loss_spike& s);

/// Facts about a run that has ended, which are shown as text or as one JSON object.
struct end_summary {
  uint64_t steps = 0, skipped = 0;
  uint64_t trained = 0;  ///< number of steps that this call of the program has trained
  uint64_t spikes = 0;   ///< number of loss spikes after which the run went back
  double seconds = 0;
  bool stopped = false;
  bool broken = false;   ///< true if the last loss is not finite
  bool unsaved = false;  ///< true if `broken`, or if the last checkpoint could not be written
  double last_loss = 0;
  bool has_validation = false;
  double validation_loss = 0;
  double tokens_per_s = 0;
  uint64_t counted_tokens = 0;  ///< number of tokens of these steps whose loss counted; 0: all counted
  std::vector<actors::rank_memory_report> memory;
  /// Largest number of elements of gathered parameters that a rank had in memory at once
  uint64_t peak_live_elements = 0;
  uint64_t model_elements = 0;
  uint64_t process_peak_bytes = 0;
  telemetry::step_summary lanes;          ///< summary of the lanes' times over all steps, added by telemetry::add_step
  std::vector<std::string> units;         ///< [unit]: name of the model's unit
  compared_steps steps_to_compare;        ///< the steps that the prediction is held against
  std::optional<foretold> step_foretold;  ///< the predicted step beside these; nullopt: none was predicted
  std::string not_foretold;  ///< sentence that says why no step was predicted; empty: one was, or none was trained
  double peak_flops = 0;     ///< measured rate of one rank's core in operations per second; 0: unknown
  checkpoint_counts checkpoints;
  std::string trace_file, report_file, output_folder, sample;
  std::string no_sample;            ///< reason why a requested text sample is missing
  std::string model_place;          ///< folder with the newest weights; empty: no weights were written to a disk
  std::string next_command;         ///< a command that uses the weights, or resumes the run
  std::string loss_unit;            ///< unit of the losses: nats/byte or nats/token
  std::string communication_table;  ///< table of collectives by comms_logger
  /// Figures of the pipeline; their number of steps is 0 if the model has no pipeline
  telemetry::pipeline_figures pipeline;
  /// Number of records of steps and validations that could not be written to the run's files
  uint64_t num_not_recorded = 0;
};
std::string end_json(const end_summary& e);
/// Returns a summary of at most ten lines, after the table of comms_logger if that is enabled.
std::string end_text(const end_summary& e);
/// Returns tables of the run's memory and times, for the end of the output.
std::string end_details(const end_summary& e);

}  // namespace troupe::apps
