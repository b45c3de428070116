// What a training run shows: a progress bar on a terminal, plain lines elsewhere, JSON lines when asked.
// Formats numbers; decides nothing.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "actors/session/session.hpp"
#include "apps/base/checkpoints.hpp"

namespace troupe::apps {

enum class output_style : uint8_t { bar, lines, json, quiet };

/// A line that the configuration asked for, between those of the run: not into a script's JSON, nowhere when quiet.
void log_line(output_style style, const std::string& line);

/// The event `slow_link` of a script's JSON lines.
std::string slow_link_json(const actors::slow_link_report& x);

class progress {
 public:
  /// `flops_per_token` of forward and backward; `loss_unit`: nats/byte, nats/token.
  progress(output_style style, uint64_t total_steps, double flops_per_token, uint64_t lines_every,
           std::string loss_unit);
  /// From now on model-FLOPs use is shown, of `flops` a second, which all ranks together could do; 0: not.
  void use_peak(double flops) { peak_flops_ = flops; }

  /// True if the last steps did more than use_peak() says is possible: it was measured while others used the machine.
  [[nodiscard]] bool beyond_peak() const;
  /// "MFU 60%" of the last steps; "MFU unknown" beyond the peak; empty where none is known.
  [[nodiscard]] std::string use_text() const;

  void step(const actors::step_report& r, uint64_t memory_bytes);
  /// A step that was shown before and was done again after a loss, for scripts alone.
  void step_again(const actors::step_report& r);
  /// A term has begun after the first, for scripts alone.
  void term(const actors::term_report& t);
  /// A link between hosts has become slow, for scripts alone: people have read the warning.
  void slow_link(const actors::slow_link_report& x);
  void evaluation(uint64_t step, double loss);
  void checkpoint(const checkpoint_event& e);
  void spike(const actors::loss_spike& s);
  /// Leaves the bar's line, so that ordinary output may follow.
  void finish_line();

 private:
  output_style style_;
  uint64_t total_, every_;
  double flops_per_token_, peak_flops_ = 0;
  std::string loss_unit_;
  double tokens_per_s_ = 0;  // smoothed
  double seconds_ = 0;
  uint64_t seen_ = 0;
  bool open_line_ = false;
};

/// For people, on one line.
std::string spike_sentence(const actors::loss_spike& s);

/// The end of a run, for people or as one JSON object.
struct end_summary {
  uint64_t steps = 0, skipped = 0;
  uint64_t trained = 0;  ///< steps of this process
  uint64_t spikes = 0;   ///< after which the run went back
  double seconds = 0;
  bool stopped = false;
  bool unsaved = false;  ///< the last checkpoint could not be written
  double last_loss = 0;
  bool has_validation = false;
  double validation_loss = 0;
  double tokens_per_s = 0;
  std::vector<actors::rank_memory_report> memory;
  uint64_t peak_live_elements = 0;  ///< of the rank that has most
  uint64_t model_elements = 0;
  uint64_t process_peak_bytes = 0;
  telemetry::step_summary lanes;   ///< of all steps, as telemetry::add_step adds them up
  std::vector<std::string> units;  ///< their names
  double peak_flops = 0;           ///< of a rank's core, measured; 0: not known
  checkpoint_counts checkpoints;
  std::string trace_file, report_file, output_folder, sample;
  std::string no_sample;                 ///< why there is no text where one was asked for
  std::string model_place;               ///< the folder with the newest weights; empty: they were not kept
  std::string next_command;              ///< that uses them, or resumes the run
  std::string loss_unit;                 ///< nats/byte, nats/token
  std::string communication_table;       ///< comms_logger's
  telemetry::pipeline_figures pipeline;  ///< without steps where the model is not cut
  uint64_t num_not_recorded = 0;         ///< steps and validations without a record
};
std::string end_json(const end_summary& e);
/// A summary of at most ten lines, behind the table of comms_logger where that is on.
std::string end_text(const end_summary& e);
/// Tables of where memory and time went.
std::string end_details(const end_summary& e);

}  // namespace troupe::apps
